#!/usr/bin/env bash
# Runs the measuring examples: every crates/*/examples/*_rates.rs there is.
set -euo pipefail
cd "$(dirname "$0")/.."

found=0
for source in crates/*/examples/*_rates.rs; do
    [ -e "$source" ] || continue
    found=1
    example=$(basename "$source" .rs)
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${source%/examples/*}/Cargo.toml" | head -n 1)
    printf '\n== %s\n' "$example"
    cargo run --release --locked --package "$package" --example "$example"
done
if [ "$found" = 0 ]; then
    echo 'there is nothing to measure yet: no crates/*/examples/*_rates.rs' >&2
    exit 1
fi
