#!/bin/sh
# Keeps sessions: each is a file of notes, one to a line.
set -eu
: "${SESSIONS:=sessions}"
mkdir -p "$SESSIONS"

case "${1:-}" in
    add) printf '%s\n' "$3" >>"$SESSIONS/$2" ;;
    show) cat "$SESSIONS/$2" ;;
    *) echo "usage: session.sh add NAME NOTE | show NAME" >&2; exit 2 ;;
esac
