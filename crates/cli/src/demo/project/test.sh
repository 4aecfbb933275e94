#!/bin/sh
# Checks session.sh in a folder of its own. Needs nothing but sh and the usual commands.
set -u
SESSIONS=$(mktemp -d) || exit 2
export SESSIONS
trap 'rm -rf "$SESSIONS"' EXIT
passed=0
total=0

check() {
    total=$((total + 1))
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name"
    else
        echo "FAIL $name"
    fi
}

# Exports a session, imports it under another name and compares the two.
round_trip() {
    sh session.sh export "$1" "$SESSIONS/archive" &&
        sh session.sh import "$SESSIONS/archive" "$1-again" &&
        cmp "$SESSIONS/$1" "$SESSIONS/$1-again"
}

sh session.sh add plain 'inspect the log'
sh session.sh add plain 'write the archive'
sh session.sh add spaced '    four blanks before this'
sh session.sh add spaced 'C:\notes\new'

check "show prints a session" sh session.sh show plain
check "a round trip keeps plain notes" round_trip plain
check "a round trip keeps blanks and backslashes" round_trip spaced

echo "$passed of $total passed"
[ "$passed" -eq "$total" ]
