#!/bin/sh
# plan: says what this round will do. NORMA_STEP_DIR is the only place an agent writes.
cat > /dev/null
echo "1. Run tests/run. 2. Judge its log. 3. If it fails, patch bin/slugify." > "$NORMA_STEP_DIR/plan.md"
echo '{"version":1,"status":"ok","summary":"run the tests, then fix what fails","files":["plan.md"]}'
