#!/usr/bin/env bash
# Measures the tables beside other structures: scalebricks-bench, with those structures built in.
#
#   scripts/bench.sh [--dpdk] [NAME... and options of scalebricks-bench]
#
# DPDK's tables and packets are built in where libdpdk-dev is installed. With --dpdk, as the first argument, it must be.
# All is compiled for the processor it runs on, without which other authors' structures would be handicapped (ours choose
# their kernels when they run); hence a target directory of its own.
# Without arguments: all benchmarks with small tables, results in out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

features=peers
if pkg-config --exists libdpdk 2>/dev/null; then
    features=peers,dpdk
else
    echo "without DPDK's tables (on Debian: apt install libdpdk-dev libclang-dev pkg-config)" >&2
    if [ "${1:-}" = --dpdk ]; then exit 2; fi
fi
if [ "${1:-}" = --dpdk ]; then shift; fi
export RUSTFLAGS="${RUSTFLAGS:-} -C target-cpu=native"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/native"
[ $# -gt 0 ] || set -- all --quick --json out/bench.json
exec cargo run --release --locked --package scalebricks-bench --features "$features" -- "$@"
