#!/bin/sh
# act: proposes a patch. It does not apply it; norma does, on git objects, after its gates have passed.
cat > /dev/null
cat > "$NORMA_STEP_DIR/patch.diff" <<'EOF'
--- a/bin/slugify
+++ b/bin/slugify
@@ -1,3 +1,3 @@
 #!/bin/sh
-# Turns a title into a slug: lower case, spaces become dashes.
-printf '%s\n' "$1" | tr 'A-Z ' 'a-z-'
+# Turns a title into a slug: lower case, punctuation dropped, spaces become dashes.
+printf '%s\n' "$1" | tr -d '[:punct:]' | tr 'A-Z ' 'a-z-'
EOF
echo '{"version":1,"status":"ok","summary":"AC1: drop punctuation before joining words","files":["patch.diff"]}'
