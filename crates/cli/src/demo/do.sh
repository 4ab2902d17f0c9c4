#!/bin/sh
# do: runs the tests on the run's own tree (the current directory) and keeps the log as evidence.
cat > /dev/null
mkdir -p "$NORMA_STEP_DIR/files"
if tests/run > "$NORMA_STEP_DIR/files/test.log" 2>&1; then result=passed; else result=failed; fi
echo "$result" > "$NORMA_STEP_DIR/files/result.txt"
echo "{\"version\":1,\"status\":\"ok\",\"summary\":\"the tests $result\",\"files\":[\"files/test.log\",\"files/result.txt\"]}"
