#!/usr/bin/env bash
# Builds the program that packages and images contain, with the profile `dist` and DPDK, and prints its path.
#
# Rust's own linker, the default on x86-64, also merges identical functions and packs relocations. Then the program needs
# glibc 2.36 (Debian 12) or newer.
set -euo pipefail
cd "$(dirname "$0")/.."

smaller=(-Clink-arg=-Wl,--icf=all -Clink-arg=-Wl,-z,pack-relative-relocs)
test=$(mktemp -d)
trap 'rm -rf "$test"' EXIT
printf 'fn main() {}\n' >"$test/empty.rs"
rustc "${smaller[@]}" --out-dir "$test" "$test/empty.rs" 2>/dev/null && "$test/empty" || smaller=()
cargo rustc --profile dist --locked --package scalebricks --features dpdk --bin scalebricks -- "${smaller[@]}" >&2
printf '%s/dist/scalebricks\n' "${CARGO_TARGET_DIR:-target}"
