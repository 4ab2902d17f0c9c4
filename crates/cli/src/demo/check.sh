#!/bin/sh
# check: reads what do left and gives a verdict. A PASS counts only with evidence that exists.
request=$(cat)
last=$(printf '%s' "$request" | tr '",' '\n\n' | grep '/steps/[0-9]*-do$' | tail -n 1)
if [ "$(cat "$last/files/result.txt")" = passed ]; then verdict=PASS pass=true; else verdict=FAIL pass=false; fi
cat > "$NORMA_STEP_DIR/verdict.json" <<EOF
{"version":1,"verdict":"$verdict",
 "criteria":[{"id":"AC1","text":"tests/run passes","pass":$pass,"evidence":"files/test.log"}],
 "metrics":{},"blockers":[],"recommended_fix":[]}
EOF
{ echo "# Scorecard"; echo; echo "AC1 tests/run passes: $verdict"; } > "$NORMA_STEP_DIR/scorecard.md"
echo "{\"version\":1,\"status\":\"ok\",\"summary\":\"AC1 $verdict\",\"files\":[\"verdict.json\",\"scorecard.md\"]}"
