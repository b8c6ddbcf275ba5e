#!/usr/bin/env bash
# Measures the tables beside other structures: scalebricks bench, with those structures built in.
#
#   scripts/bench.sh [--dpdk] [NAME... and options of scalebricks bench]
#
# With --dpdk, as the first argument, DPDK's tables and packets are built in instead: that needs libdpdk-dev.
# Without arguments: all benchmarks with small tables, results in out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

features=peers
if [ "${1:-}" = --dpdk ]; then
    features=dpdk
    shift
fi
[ $# -gt 0 ] || set -- all --quick --json out/bench.json
exec cargo run --release --locked --package scalebricks --features "$features" -- bench "$@"
