#!/usr/bin/env bash
# Runs `lasthop live` with the inputs of the action, from the environment: LINK, PROGRAMS, EXPECT,
# REPEAT, TIMEOUT, RESULTS. The exit code is that of `lasthop live`.
set -euo pipefail
mkdir -p "$RESULTS"
options=(--timeout "$TIMEOUT" --repeat "$REPEAT" --json "$RESULTS/results.jsonl")
options+=(--report "$RESULTS/report.html" --junit "$RESULTS/junit.xml")
while IFS= read -r condition; do
  [ -z "${condition// /}" ] || options+=(--expect "$condition")
done <<<"$EXPECT"
# The programs are words of a shell; nothing in them is expanded.
programs=()
while IFS= read -r -d '' word; do programs+=("$word"); done < <(
  python3 -c 'import os, shlex, sys
sys.stdout.write("".join(word + "\0" for word in shlex.split(os.environ["PROGRAMS"])))'
)
exec lasthop live "$LINK" "${options[@]}" "${programs[@]}"
