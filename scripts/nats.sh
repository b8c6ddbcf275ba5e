#!/usr/bin/env bash
# NATS servers on this machine, configured for the JetStream engine: one for the processes of this machine, or three for tests.
#
#   scripts/nats.sh local [DIRECTORY]   start one server; its files are in DIRECTORY (target/nats/local)
#   scripts/nats.sh start [DIRECTORY]   start a cluster of three; their files are in DIRECTORY (target/nats/cluster)
#   scripts/nats.sh stop [DIRECTORY]    stop the servers of a directory, or of both; their files stay
#   scripts/nats.sh status [DIRECTORY]  print which servers run
#   scripts/nats.sh path                print the path of a nats-server of 2.15 or newer: one on the PATH, or built with go
#
#   NATS_PORT  client port of the first server (4222); the others follow; cluster ports are 2000 higher
set -euo pipefail
directory=${2:+$(realpath -m "$2")}
cd "$(dirname "$0")/.."

VERSION=2.15.2
BUILT=$PWD/target/nats/nats-server
PORT=${NATS_PORT:-4222}

# Whether a program is a nats-server of a supported version.
is_new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^nats-server: v\{0,1\}\([0-9]*\)\.\([0-9]*\).*/\1 \2/p') || return 1
    [ -n "$version" ] || return 1
    # shellcheck disable=SC2086 # two numbers
    set -- $version
    [ "$1" -gt 2 ] || { [ "$1" = 2 ] && [ "$2" -ge 15 ]; }
}

find_server() {
    local found
    if found=$(command -v nats-server) && is_new_enough "$found"; then
        printf '%s\n' "$found"
    elif [ -x "$BUILT" ] && is_new_enough "$BUILT"; then
        printf '%s\n' "$BUILT"
    elif command -v go >/dev/null; then
        printf 'building nats-server %s\n' "$VERSION" >&2
        mkdir -p "$(dirname "$BUILT")"
        GOBIN=$(dirname "$BUILT") go install "github.com/nats-io/nats-server/v2@v$VERSION" >&2 && is_new_enough "$BUILT" || {
            printf 'no nats-server: the build failed. It needs the network and Go 1.26, which Go 1.21 or newer downloads; or put nats-server 2.15 or newer on the PATH\n' >&2
            return 1
        }
        printf '%s\n' "$BUILT"
    else
        printf 'no nats-server: put version 2.15 or newer on the PATH (from the releases of nats-io/nats-server; the one of Debian is too old), or install Go 1.21 or newer to build it\n' >&2
        return 1
    fi
}

is_running() { [ -e "$1/$2.pid" ] && kill -0 "$(cat "$1/$2.pid")" 2>/dev/null; }

# Starts a number of servers in a directory, and waits until each accepts connections.
start() {
    local directory=$1 count=$2 server n routes='' cluster=''
    server=$(find_server)
    mkdir -p "$directory"
    for ((n = 0; n < count; n++)); do routes+="nats://127.0.0.1:$((PORT + 2000 + n)) "; done
    for ((n = 0; n < count; n++)); do
        is_running "$directory" "$n" && continue
        [ "$count" = 1 ] || cluster="cluster { name: \"local\", listen: \"127.0.0.1:$((PORT + 2000 + n))\", routes: [ ${routes// /, } ] }"
        cat >"$directory/$n.conf" <<CONFIG
server_name: "s$n"
listen: "127.0.0.1:$((PORT + n))"
pid_file: "$directory/$n.pid"
log_file: "$directory/$n.log"
max_payload: 2MB
jetstream { store_dir: "$directory/$n", sync_interval: always }
$cluster
CONFIG
        nohup "$server" -c "$directory/$n.conf" >/dev/null 2>&1 &
    done
    for ((n = 0; n < count; n++)); do
        for _ in $(seq 100); do
            is_running "$directory" "$n" && (exec 3<>"/dev/tcp/127.0.0.1/$((PORT + n))") 2>/dev/null && continue 2
            sleep 0.1
        done
        printf 'server %s did not start: see %s\n' "$n" "$directory/$n.log" >&2
        return 1
    done
    for ((n = 0; n < count; n++)); do printf 'nats://127.0.0.1:%s\n' $((PORT + n)); done
}

# The numbers of the servers that a directory has files of.
servers() { find "$1" -maxdepth 1 -name '[0-2].conf' -printf '%f\n' 2>/dev/null | sed 's/\.conf$//' | sort; }

stop() {
    local n
    for n in $(servers "$1"); do
        if is_running "$1" "$n"; then kill "$(cat "$1/$n.pid")"; fi
    done
    for n in $(servers "$1"); do
        for _ in $(seq 100); do is_running "$1" "$n" && sleep 0.1; done
        rm -f "$1/$n.pid"
    done
}

status() {
    local n
    for n in $(servers "$1"); do
        if is_running "$1" "$n"; then printf 'server %s of %s runs\n' "$n" "$1"; else printf 'server %s of %s does not run\n' "$n" "$1"; fi
    done
}

LOCAL=$PWD/target/nats/local
CLUSTER=$PWD/target/nats/cluster
case "${1:-}" in
path) find_server ;;
local) start "${directory:-$LOCAL}" 1 ;;
start) start "${directory:-$CLUSTER}" 3 ;;
stop | status)
    if [ -n "$directory" ]; then "$1" "$directory"; else "$1" "$LOCAL" && "$1" "$CLUSTER"; fi
    ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
