#!/usr/bin/env bash
# Shows again what a change did: the tree before it and its patch make the tree after it.
#
#   bash replay-TASK.sh [REPOSITORY]
#
# Needs git, norma and a clone that has the commit before the change (by default the one around the current directory).
# Nothing in the clone is touched. Exit codes: 0 verified, 1 a hash differs, 2 it could not be done.
set -euo pipefail

run=@run@
task=@task@
before=@before@
before_hash=@before_hash@
after_hash=@after_hash@
patch=@patch@

could_not() {
  printf 'ERROR: %s\n' "$1" >&2
  exit 2
}

# The directory is in the state that was recorded, or this ends here.
compare() {
  local found
  found=$(norma hash "$work/tree") || could_not "norma could not hash the tree $1 the change"
  if [ "$found" != "$2" ]; then
    printf 'ERROR: Hash mismatch %s the change\n  recorded: %s\n  found:    %s\n' "$1" "$2" "$found" >&2
    exit 1
  fi
}

for tool in git norma; do
  command -v "$tool" >/dev/null || could_not "$tool is not on the PATH"
done
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd) || could_not "the directory of this script is gone"
if [ -n "$patch" ] && [ ! -f "$here/$patch" ]; then
  could_not "$here/$patch is missing"
fi
# shellcheck disable=SC2046 # a list of names
unset $(git rev-parse --local-env-vars)
repository=${1:-.}
objects=$(git -C "$repository" rev-parse --path-format=absolute --git-path objects) ||
  could_not "$repository is not in a git repository"
format=$(git -C "$repository" rev-parse --show-object-format) || could_not "$repository cannot be read"
git -C "$repository" cat-file -e "$before^{commit}" 2>/dev/null ||
  could_not "commit $before is not in $repository: fetch it first"

# A repository of its own that borrows the objects. Nobody's settings, hooks, filters or line ends count in it.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
work=$(mktemp -d) || could_not "no temporary directory can be made"
trap 'rm -rf -- "$work"' EXIT
git init --quiet --template= --object-format="$format" "$work/tree" || could_not "no repository can be made in $work"
mkdir -p "$work/tree/.git/info" "$work/tree/.git/objects/info"
printf '%s\n' "$objects" >"$work/tree/.git/objects/info/alternates"
printf '* -text -filter -ident -working-tree-encoding\n' >"$work/tree/.git/info/attributes"
git -C "$work/tree" checkout --quiet --detach "$before" || could_not "commit $before cannot be checked out"
submodules=$(git -C "$work/tree" ls-files --stage | grep -c '^160000 ' || true)
if [ "$submodules" != 0 ]; then
  could_not "the tree has submodules, which a directory of files cannot show"
fi

compare before "$before_hash"
if [ -n "$patch" ]; then
  git -C "$work/tree" apply --index --whitespace=nowarn "$here/$patch" || could_not "the patch of $task does not apply"
fi
compare after "$after_hash"
printf '✅ Replay successful: hash verified (%s of %s)\n' "$task" "$run"
