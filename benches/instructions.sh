#!/usr/bin/env bash
# Instructions per event of the replay bench, by callgrind: the same on a noisy machine as on a quiet one.
#
#   benches/instructions.sh [TEXT]      only scenarios whose name has TEXT
#
# Each scenario runs twice, with N and with 3 N replies; the difference leaves start-up out.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo 'valgrind is not installed' >&2; exit 1; }
wanted=${1:-}
few=500
many=1500

# Cargo names the executable on stderr, in parentheses.
bench=$(cargo bench --bench replay --no-run 2>&1 | sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
[ -x "$bench" ] || { echo 'cargo bench --bench replay --no-run names no executable' >&2; exit 1; }

# Prints "instructions events" of one run.
count() {
    local scenario=$1 part=$2 replies=$3 log events
    log=$(mktemp)
    events=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$log" \
        "$bench" --scenario "$scenario" --part "$part" --instructions "$replies" |
        sed -n 's/.*"events":\([0-9]*\).*/\1/p')
    echo "$(sed -n 's/.*Collected : *\([0-9]*\).*/\1/p' "$log") $events"
    rm -f "$log"
}

printf '%-42s %12s %12s\n' 'instructions per event' wire engine
"$bench" --scenario "$wanted" --part wire --instructions 1 |
    sed -n 's/.*"scenario":"\([^"]*\)".*/\1/p' |
    while read -r scenario; do
        printf '%-42s' "$scenario"
        for part in wire engine; do
            read -r first_instructions first_events <<<"$(count "$scenario" "$part" $few)"
            read -r instructions events <<<"$(count "$scenario" "$part" $many)"
            awk -v i="$((instructions - first_instructions))" -v e="$((events - first_events))" \
                'BEGIN { printf " %12.1f", i / e }'
        done
        echo
    done
