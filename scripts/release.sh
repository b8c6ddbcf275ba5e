#!/usr/bin/env bash
# Builds what a release consists of, from a clean commit, for this machine's architecture:
#
#   scripts/release.sh [OUT]        (target/release-VERSION)
#
#   scalebricks-VERSION-ARCH.tar.xz       program without symbols, manual pages, completions, units, examples
#   scalebricks-VERSION-ARCH-debug.tar.xz its debug symbols
#   scalebricks_VERSION-1_ARCH.deb, scalebricks-dbgsym_…deb
#   libscalebricks-VERSION-ARCH.tar.xz    the C library: header, shared and static library, pkg-config file
#   scalebricks-VERSION-….whl             the Python package
#   scalebricks-{types,tables}-VERSION.crate
#   scalebricks-VERSION.cdx.json          software bill of materials (CycloneDX), of the program with its features
#   SHA256SUMS
#
# Refuses changed sources, a version without a heading in CHANGELOG.md, and a program of more than 20 MB without symbols.
# Needs DPDK, dpkg-dev, binutils, xz, Python with venv, and cargo-cyclonedx (cargo install cargo-cyclonedx --locked).
set -euo pipefail
cd "$(dirname "$0")/.."

# Bytes of the program without symbols.
MOST=20000000

fail() {
    printf 'release: %s\n' "$1" >&2
    exit 1
}

case "${1:-}" in
-h | --help)
    sed -n '2,18s/^# \{0,1\}//p' "$0"
    exit
    ;;
esac
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || fail 'Cargo.toml has no version'
out=$(realpath -m -- "${1:-target/release-$version}")
architecture=$(uname -m)

[ -z "$(git status --porcelain)" ] || fail 'sources have changed: commit or stash them (git status)'
grep -q "^## \[$version\]" CHANGELOG.md || fail "CHANGELOG.md has no heading for $version"
for tool in dpkg-deb dpkg-shlibdeps objcopy strip xz python3 sha256sum; do
    command -v "$tool" >/dev/null || fail "no $tool (on Debian: apt install dpkg-dev binutils xz-utils python3-venv)"
done
cargo cyclonedx --version >/dev/null 2>&1 || fail 'no cargo-cyclonedx (install with: cargo install cargo-cyclonedx --locked)'
pkg-config --atleast-version=22.11 libdpdk || fail 'no DPDK 22.11 or later (on Debian: apt install libdpdk-dev libclang-dev pkg-config)'

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
SCALEBRICKS_COMMIT=$(git rev-parse --short=12 HEAD)
export SOURCE_DATE_EPOCH SCALEBRICKS_COMMIT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"

step() { printf '== %s\n' "$1"; }

step program
program=$(scripts/program.sh)
name=scalebricks-$version-$architecture
tree=$work/$name
install -D -m 755 "$program" "$tree/bin/scalebricks"
mkdir -p "$work/debug/$name-debug"
objcopy --only-keep-debug --compress-debug-sections "$tree/bin/scalebricks" "$work/debug/$name-debug/scalebricks.debug"
strip --strip-unneeded --remove-section=.comment "$tree/bin/scalebricks"
objcopy --add-gnu-debuglink="$work/debug/$name-debug/scalebricks.debug" "$tree/bin/scalebricks"
bytes=$(stat -c %s "$tree/bin/scalebricks")
printf '%s bytes without symbols\n' "$bytes"
[ "$bytes" -le $MOST ] || fail "the program has $bytes bytes without symbols, more than $MOST"

step 'manual pages and completions'
"$program" man "$tree/share/man/man1" >/dev/null
for shell in bash zsh fish; do
    mkdir -p "$tree/share/completions"
    "$program" completions $shell >"$tree/share/completions/scalebricks.$shell"
done
cp -r README.md CHANGELOG.md LICENSE* SECURITY.md examples "$tree/"
mkdir -p "$tree/deploy"
cp deploy/*.service "$tree/deploy/"

# The same files give the same archive.
pack() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$1" -c "$2" | xz -T0 -6 >"$out/$2.tar.xz"
}
pack "$work" "$name"
pack "$work/debug" "$name-debug"

step 'Debian packages'
scripts/deb.sh --binary "$program" --out "$out"

step 'Python package'
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet 'maturin>=1.9,<2'
"$work/python/bin/maturin" build --quiet --locked --release --manifest-path python/Cargo.toml --compatibility linux --out "$out"

step 'C library'
scripts/capi-install --profile release "$work/libscalebricks-$version-$architecture"
pack "$work" "libscalebricks-$version-$architecture"

step crates
cargo package --locked --no-verify -p scalebricks-types -p scalebricks-tables
cp "${CARGO_TARGET_DIR:-target}"/package/scalebricks-{types,tables}-"$version".crate "$out/"

step 'bill of materials'
# Of the program with the features it was built with; the tool writes beside each Cargo.toml.
cargo cyclonedx --format json --manifest-path crates/scalebricks/Cargo.toml --features dpdk --override-filename "sbom" --target all >/dev/null
mv crates/scalebricks/sbom.json "$out/scalebricks-$version.cdx.json"
find crates -name sbom.json -delete
python3 - "$out/scalebricks-$version.cdx.json" <<'PY'
import json, sys
bom = json.load(open(sys.argv[1]))
assert bom["bomFormat"] == "CycloneDX" and len(bom["components"]) > 50, "the bill of materials is incomplete"
print(len(bom["components"]), "components")
PY

(cd "$out" && sha256sum -- * >SHA256SUMS && sha256sum --quiet --check SHA256SUMS)
step "$out"
ls -l "$out"
