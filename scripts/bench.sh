#!/usr/bin/env bash
# Measures the tables beside other structures: scalebricks bench, with those structures built in.
#
#   scripts/bench.sh [NAME... and options of scalebricks bench]
#
# Without arguments: all benchmarks with small tables, results in out/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- all --quick --json out/bench.json
exec cargo run --release --locked --package scalebricks --features peers -- bench "$@"
