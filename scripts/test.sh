#!/bin/sh
# Runs the tests; takes what `cargo xtask test` takes (docs/testing.md).
set -eu
cd "$(dirname "$0")/.."
command -v cargo > /dev/null || { echo "cargo is not on PATH: install Rust (README.md, Install)" >&2; exit 4; }
exec cargo xtask test "$@"
