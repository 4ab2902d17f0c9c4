#!/bin/sh
# Turns a title into a slug: lower case, spaces become dashes.
printf '%s\n' "$1" | tr 'A-Z ' 'a-z-'
