#!/usr/bin/env bash
# Measures the tables beside other structures: scalebricks bench, with those structures built in.
#
#   scripts/bench.sh [--dpdk] [NAME... and options of scalebricks bench]
#
# With --dpdk, as the first argument, DPDK's tables and packets are built in as well: that needs libdpdk-dev.
# All is compiled for the processor it runs on, without which other authors' structures would be handicapped (ours choose
# their kernels when they run); hence a target directory of its own.
# Without arguments: all benchmarks with small tables, results in out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

features=peers
if [ "${1:-}" = --dpdk ]; then
    features=peers,dpdk
    shift
fi
export RUSTFLAGS="${RUSTFLAGS:-} -C target-cpu=native"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/native"
[ $# -gt 0 ] || set -- all --quick --json out/bench.json
exec cargo run --release --locked --package scalebricks --features "$features" -- bench "$@"
