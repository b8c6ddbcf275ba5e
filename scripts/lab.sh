#!/usr/bin/env bash
# The lab: a cluster over real interfaces on this machine (docs/lab.md). Builds the program with DPDK first.
#
#   scripts/lab.sh run [OPTION...]     creates the lab, checks everything, removes it
#   scripts/lab.sh outages [NAME,...]  causes outages under load, one after the other (docs/outages.md)
#   scripts/lab.sh router [SCENARIO,...]  routers between the kernels' own network stacks (docs/lab.md)
#   scripts/lab.sh up | test | down    creates the lab; checks it; removes it
#
# With a control plane (outages, --control, --flows, router cluster) a NATS server stores the log: one on the PATH, or built with Go
# (scripts/nats.sh).
#
# Namespaces need root: an ordinary user is asked by sudo. SCALEBRICKS names another program than the one built here.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${SCALEBRICKS:-${CARGO_TARGET_DIR:-target}/release/scalebricks}
if [ -z "${SCALEBRICKS:-}" ]; then
    if [ "${1:-}" = down ]; then
        # Removing the lab needs no DPDK, so any build is sufficient.
        [ -x "$program" ] || cargo build --quiet --release --locked -p scalebricks --bin scalebricks
    else
        pkg-config --atleast-version=22.11 libdpdk 2>/dev/null || {
            echo 'no DPDK 22.11 or later; on Debian: apt-get install libdpdk-dev libclang-dev pkg-config' >&2
            exit 2
        }
        cargo build --release --locked -p scalebricks --bin scalebricks --features dpdk
    fi
fi

# The program of the log's server, unless the caller names one or the lab needs none.
needs_log=0
case "${1:-}" in
outages) needs_log=1 ;;
router) case " $* " in *' routing '* | *' tunnel '* | *' strongswan '*) ;; *) needs_log=1 ;; esac ;;
run | up) case " $* " in *' --control '* | *' --flows'[\ =]*) needs_log=1 ;; esac ;;
esac
case " $* " in *' --nats'* | *' --help '* | *' -h '*) needs_log=0 ;; esac
if [ $needs_log = 1 ]; then
    server=$(scripts/nats.sh path) || exit 2
    set -- "$@" --nats-server "$server"
fi

if [ "$(id -u)" = 0 ]; then
    exec "$program" lab "$@"
fi
command -v sudo >/dev/null || {
    echo 'the lab creates network namespaces, which needs root, and there is no sudo' >&2
    exit 2
}
exec sudo -- "$program" lab "$@"
