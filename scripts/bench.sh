#!/usr/bin/env bash
# Builds scalebricks-bench with the structures of other authors, and measures.
#
#   scripts/bench.sh [--dpdk] [NAME... and options of scalebricks-bench]
#
# Includes DPDK's tables and ports if libdpdk-dev is installed; with --dpdk as the first argument it must be.
# Everything is compiled for this processor, because the structures of other authors need it (ours choose their kernels
# at run time); hence the separate target directory. Only SHA instructions are found at run time, because valgrind does
# not know them.
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
export RUSTFLAGS="${RUSTFLAGS:-} -C target-cpu=native -C target-feature=-sha"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/native"
[ $# -gt 0 ] || set -- all --quick --json-file out/bench.json
exec cargo run --release --locked --package scalebricks-bench --features "$features" -- "$@"
