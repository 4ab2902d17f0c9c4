#!/usr/bin/env bash
# Checks the signatures and SHA-256 digests of an unpacked bundle with tools that are everywhere.
#
#   tar -xf bundle.tar && bash bundle/verify.sh KEY.pem
#
# KEY.pem is a public key that you trust, got elsewhere. This is less than norma-verify does: neither the event chain
# nor the state machine, receipts or git objects are looked at.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: verify.sh KEY.pem (a public key that you trust, not one from this bundle)" >&2
  exit 2
fi
for tool in jq openssl sha256sum base64; do
  command -v "$tool" >/dev/null || { echo "error: $tool is not installed" >&2; exit 2; }
done
key=$(realpath -- "$1")
cd -- "$(dirname -- "$0")"
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
failed=0

problem() {
  printf 'FAILED  %s\n' "$1"
  failed=1
}

# An envelope: one signature, over its type and payload with their lengths.
signed() {
  local type size
  type=$(jq -er 'select(.signatures | length == 1) | .payloadType' "$1") || return 1
  [ "$type" = application/vnd.in-toto+json ] || return 1
  jq -er .payload "$1" | base64 -d >"$work/payload" || return 1
  jq -er '.signatures[0].sig' "$1" | base64 -d >"$work/sig" || return 1
  size=$(stat -c %s "$work/payload")
  { printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$size"; cat "$work/payload"; } >"$work/pae"
  openssl dgst -sha256 -verify "$key" -signature "$work/sig" "$work/pae" >/dev/null 2>&1
}

# Every envelope that norma itself wrote holds.
envelopes=(index.dsse.json run/seal.dsse.json)
for file in attestations/*.dsse.json run/changes/*/vsa.dsse.json run/changes/*/test-result.dsse.json; do
  if [ -e "$file" ]; then envelopes+=("$file"); fi
done
for file in "${envelopes[@]}"; do
  if [ -f "$file" ] && signed "$file"; then
    printf 'ok      %s is signed by that key\n' "$file"
  else
    problem "$file is missing or not signed by that key"
  fi
done

# The signature over the index is a signature over this index.
if signed index.dsse.json; then
  said=$(jq -r '.subject[0].digest.sha256' "$work/payload")
  real=$(sha256sum index.json | cut -d ' ' -f 1)
  kind=$(jq -r .predicateType "$work/payload")
  if [ "$said" != "$real" ] || [ "$kind" != urn:norma:bundle:v1 ]; then problem "index.json is not the one that was signed"; fi
fi

# Every file is what the index says, and there is no other..
if ! jq -er '.files[] | .sha256 + "  " + (.at // .path)' index.json >"$work/sums"; then
  problem "index.json is missing or cannot be read"
elif sha256sum --quiet --strict -c "$work/sums"; then
  printf 'ok      %s files are what the index says\n' "$(wc -l <"$work/sums")"
else
  problem "files differ from the index"
fi
find . ! -type d ! -path ./index.json ! -path ./index.dsse.json | sed 's|^\./||' | LC_ALL=C sort >"$work/there"
cut -c 67- "$work/sums" | LC_ALL=C sort >"$work/listed"
if ! diff "$work/listed" "$work/there" >"$work/diff"; then
  problem "files were added or are missing: $(grep '^[<>]' "$work/diff" | head -n 5 | tr '\n' ' ')"
fi

if [ "$failed" -ne 0 ]; then
  echo "NOT verified"
  exit 1
fi
echo "verified: signatures and SHA-256"
