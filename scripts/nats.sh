#!/usr/bin/env bash
# Three NATS servers on this machine, configured for the JetStream engine: for trials and tests, not for production.
#
#   scripts/nats.sh start [DIRECTORY]   start them; their files are in DIRECTORY (target/nats/cluster)
#   scripts/nats.sh stop [DIRECTORY]    stop them; their files stay
#   scripts/nats.sh status [DIRECTORY]  print which of them run
#   scripts/nats.sh path                print the path of a nats-server 2.15 or newer: from the PATH, or built with go
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

start() {
    local directory=$1 server n routes=''
    server=$(find_server)
    mkdir -p "$directory"
    for n in 0 1 2; do routes+="nats://127.0.0.1:$((PORT + 2000 + n)) "; done
    for n in 0 1 2; do
        is_running "$directory" "$n" && continue
        cat >"$directory/$n.conf" <<CONFIG
server_name: "s$n"
listen: "127.0.0.1:$((PORT + n))"
pid_file: "$directory/$n.pid"
log_file: "$directory/$n.log"
max_payload: 2MB
jetstream { store_dir: "$directory/$n", sync_interval: always }
cluster { name: "local", listen: "127.0.0.1:$((PORT + 2000 + n))", routes: [ ${routes// /, } ] }
CONFIG
        nohup "$server" -c "$directory/$n.conf" >/dev/null 2>&1 &
    done
    for n in 0 1 2; do
        for _ in $(seq 100); do
            is_running "$directory" "$n" && (exec 3<>"/dev/tcp/127.0.0.1/$((PORT + n))") 2>/dev/null && continue 2
            sleep 0.1
        done
        printf 'server %s did not start: see %s\n' "$n" "$directory/$n.log" >&2
        return 1
    done
    printf 'nats://127.0.0.1:%s\n' "$PORT" $((PORT + 1)) $((PORT + 2))
}

stop() {
    local n
    for n in 0 1 2; do
        if is_running "$1" "$n"; then kill "$(cat "$1/$n.pid")"; fi
    done
    for n in 0 1 2; do
        for _ in $(seq 100); do is_running "$1" "$n" && sleep 0.1; done
        rm -f "$1/$n.pid"
    done
}

status() {
    local n
    for n in 0 1 2; do
        if is_running "$1" "$n"; then printf 'server %s runs on port %s\n' "$n" $((PORT + n)); else printf 'server %s does not run\n' "$n"; fi
    done
}

DIRECTORY=${directory:-$PWD/target/nats/cluster}
case "${1:-}" in
path) find_server ;;
start) start "$DIRECTORY" ;;
stop) stop "$DIRECTORY" ;;
status) status "$DIRECTORY" ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
