#!/bin/sh
# Makes one repository with a run of every kind, each by the verbs that a user types, and exports their bundles.
# usage: NORMA=path/to/norma scenario.sh DIR   (DIR gets repo/, data/ and bundles/)
# `cargo xtask logs` calls it and packs what it left; tests then fold, verify and replay that with every later version.
set -eu
dir=$1
mkdir -p "$dir/home" "$dir/data" "$dir/bundles" "$dir/tmp"
export HOME="$dir/home" XDG_DATA_HOME="$dir/data" XDG_CONFIG_HOME="$dir/home/config" TMPDIR="$dir/tmp"
export GIT_CONFIG_GLOBAL="$dir/home/gitconfig" GIT_CONFIG_NOSYSTEM=1 NO_COLOR=1
git config --global user.name "A User" && git config --global user.email user@example.org
git config --global init.defaultBranch main && git config --global commit.gpgsign false

# A verb that must exit with this code.
exits() {
    expected=$1 && shift
    code=0 && "$NORMA" "$@" > "$dir/tmp/out" 2>&1 || code=$?
    if [ "$code" != "$expected" ]; then echo "norma $*: exit $code, expected $expected"; cat "$dir/tmp/out"; exit 1; fi
}
commit() { git add -A && git commit -qm "$1"; }
configure() { printf '%s\n' "$1" > .norma/config.json && exits 0 trust; }
# The first word of the newest run in the list.
last() { "$NORMA" runs --json | sed 's/.*"run_id":"\([^"]*\)".*/\1/' | head -n 1; }

# plan, do, check, act: a fix in the second round, landed; then taken back.
"$NORMA" demo > "$dir/tmp/demo" 2>&1 || { cat "$dir/tmp/demo"; exit 1; }
mv "$(sed -n 's/^repository \([^ ]*\) .*/\1/p' "$dir/tmp/demo")" "$dir/repo"
old=$(ls "$dir/data/norma") && cd "$dir/repo"
# The state directory has moved, and what is kept outside of it is found by its path.
new=$(printf %s "$dir/repo/.norma" | sha256sum | cut -c1-16)
[ "$old" = "$new" ] || mv "$dir/data/norma/$old" "$dir/data/norma/$new"
exits 0 undo @last

loop() {
    printf '{"agents":{"plan":{"type":"exec","cmd":["agents/plan"]},"do":{"type":"exec","cmd":["agents/do"]},"check":{"type":"exec","cmd":["agents/check"]},"act":{"type":"exec","cmd":["%s"]}},"budgets":%s}' "$1" "$2"
}
cat > agents/protected <<'EOF'
#!/bin/sh
cat > /dev/null
printf -- '--- /dev/null\n+++ b/.github/workflows/x.yml\n@@ -0,0 +1 @@\n+x\n' > "$NORMA_STEP_DIR/patch.diff"
echo '{"version":1,"status":"ok","summary":"a workflow","files":["patch.diff"]}'
EOF
printf '#!/bin/sh\ncat > /dev/null; echo no json\n' > agents/mumbles
printf '#!/bin/sh\ncat > /dev/null; echo {\\"version\\":1,\\"status\\":\\"ok\\",\\"summary\\":\\"nothing\\"}\n' > agents/idle
cat > agents/worker <<'EOF'
#!/bin/sh
request=$(cat)
id=$(printf %s "$request" | sed -n 's/.*"contract":{"id":"\([^"]*\)".*/\1/p')
case $id in
    new) mkdir -p src && echo one > src/new.txt ;;
    top) sed -i '1s/.*/top/' src/lines.txt ;;
    end) sed -i '$s/.*/end/' src/lines.txt ;;
    tested) echo tested > src/tested.txt ;;
    untested) echo broken > src/broken.txt ;;
    outside) echo x > README.md ;;
    fails) exit 3 ;;
    many) for n in 1 2 3; do echo $n > src/many-$n.txt; done ;;
    looks) cat src/lines.txt > /dev/null ;;
    cancel | interrupt) exec sleep 60 ;;
    moved | paused) sleep 2 && echo "$id" > "src/$id.txt" ;;
    *) echo "$id" > "src/$id.txt" ;;
esac
echo '{"version":1,"status":"ok","summary":"did it"}'
EOF
chmod +x agents/* && mkdir -p src && seq 1 9 > src/lines.txt
printf 'test ! -e src/broken.txt\n' > t.sh && commit "agents and files"

configure "$(loop agents/idle '{"max_iterations":1}')"
exits 1 run --goal "nothing is done" --ac "tests/run passes"
exits 1 resume @last --budget max_iterations=2
configure "$(loop agents/protected '{"max_iterations":3}')"
exits 1 run --goal "a protected path" --ac "tests/run passes"
configure "$(loop agents/mumbles '{"max_iterations":3}')"
exits 1 run --goal "no protocol" --ac "tests/run passes"

workers='{"agents":{"worker":{"type":"exec","cmd":["./agents/worker"]}},"budgets":{"max_iterations":3}}'
configure "$workers"
item() { printf '{"id":"%s","agent_id":"agent-1","description":"do %s","dependencies":[%s]%s}' "$1" "$1" "$2" "${3:-}"; }
# Success, lines of one file, tests, scope, a failed need, admission, nothing to change, an item behind another.
printf '[%s,%s,%s,%s,%s,%s,%s,%s,%s,%s]' "$(item new '')" \
    "$(item top '' ',"allowed_paths":["src/lines.txt"]')" "$(item end '')" "$(item tested '' ',"test_command":"sh t.sh"')" \
    "$(item untested '' ',"test_command":"sh t.sh"')" "$(item outside '' ',"allowed_paths":["src/outside.txt"]')" \
    "$(item fails '')" "$(item needs '"fails"')" "$(item many '' ',"constraints":{"max_files":2}')" \
    "$(item looks '"new"')" > ../items.json
exits 1 batch ../items.json --jobs 2
printf '[%s,%s]' "$(item a '')" "$(item b '"a"')" > ../items.json
exits 0 batch ../items.json --jobs 2
exits 0 undo @last

# Starts an item and waits until its agent is at work.
start() {
    printf '[%s]' "$(item "$1" '')" > ../items.json
    "$NORMA" batch ../items.json > "$dir/tmp/out" 2>&1 & norma=$!
    until "$NORMA" events @last 2> /dev/null | grep -q "do $1" && "$NORMA" events @last | grep -q step_started; do sleep 0.1; done
}
# The branch moves while an agent works.
start moved
git commit -q --allow-empty -m meanwhile && wait $norma

# A person approves; a person cancels; norma is killed, and the run canceled afterwards.
printf '[%s]' "$(item wide '' ',"allowed_paths":["src","agents","bin","tests"]')" > ../items.json
exits 3 batch ../items.json
exits 0 approve "$("$NORMA" approvals --json | sed 's/.*"id":"\([^"]*\)".*/\1/' | head -n 1)"
exits 0 resume @last
start cancel && exits 0 cancel @last && wait $norma || true
start interrupt && kill -9 $norma && wait $norma || true
exits 0 cancel @last

for run in $("$NORMA" runs --json | tr '{' '\n' | sed -n 's/.*"run_id":"\([^"]*\)".*/\1/p'); do
    exits 0 verify "$run"
    exits 0 export "$run" -o "$dir/bundles/$run.tar"
done
exits 0 keys export -o "$dir/bundles/norma.pem"
# The last one is left as a killed norma leaves it, for the next version to resume.
start paused && kill -9 $norma && wait $norma || true
rm -rf "$dir/home" "$dir/tmp" "$dir/items.json" "$dir"/data/norma/*/keys/signing.key .norma/cache .norma/worktrees .norma/norma.sock
