#!/bin/sh
# Builds norma and everything that its tests need. Needs Linux, git, Rust and a C compiler.
set -eu
cd "$(dirname "$0")/.."
command -v cargo > /dev/null || { echo "cargo is not on PATH: install Rust (README.md, Install)" >&2; exit 4; }
exec cargo build --workspace --all-targets
