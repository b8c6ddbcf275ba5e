#!/usr/bin/env bash
# Repeats the experiments of the RouteBricks paper, and writes docs/router-figures.md from the results.
#
#   scripts/router-figures.sh --build
#   scripts/router-figures.sh [--quick] [options of scalebricks-bench]
#
# With --build it only builds the program, which may take longer than the measurement.
#
# Counts instructions (if valgrind is installed), reserves huge pages for DPDK (as root), and measures for about ten
# minutes; keep the machine idle meanwhile. Results: docs/data/router-figures/PROCESSOR.json, the page and its pictures.
# With --quick it takes two minutes, and only writes out/router-figures.json and pictures to out.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=
for word in "$@"; do if [ "$word" = --quick ]; then quick=1; fi; done

# As scripts/bench.sh builds it.
export RUSTFLAGS="${RUSTFLAGS:-} -C target-cpu=native -C target-feature=-sha"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/native"
cargo build --release --locked --package scalebricks-bench --features peers,dpdk
program=$CARGO_TARGET_DIR/release/scalebricks-bench
if [ "${1:-}" = --build ]; then exit; fi

mkdir -p out
counts=()
if command -v valgrind >/dev/null; then
    if SCALEBRICKS_BENCH=$program scripts/instructions router --json out/router-instructions.json >/dev/null; then
        counts=(--instructions out/router-instructions.json)
    else
        echo 'instructions left out: valgrind cannot run this program' >&2
    fi
fi
if [ "$(id -u)" = 0 ]; then sysctl -q vm.nr_hugepages=1100 || true; fi
if [ -n "$quick" ]; then
    "$program" router "${counts[@]}" --json-file out/router-figures.json --svg out "$@"
else
    "$program" router "${counts[@]}" --page router-figures "$@"
fi
