#!/bin/sh
# Every line: a title, and the slug it should become.
cd "$(dirname "$0")/.." || exit 2
failed=0
check() {
    got=$(bin/slugify "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    '$1' -> '$got'"
    else
        echo "FAIL  '$1' -> '$got', expected '$2'"
        failed=1
    fi
}
check "Hello World" "hello-world"
check "Hello, World!" "hello-world"
exit $failed
