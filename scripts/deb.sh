#!/usr/bin/env bash
# Builds Debian packages of the program: scalebricks_VERSION_ARCH.deb and, with the debug symbols,
# scalebricks-dbgsym_VERSION_ARCH.deb.
#
#   scripts/deb.sh [--binary PATH] [--out DIRECTORY]
#
#   --binary   the program ($SCALEBRICKS; if that is not set, scripts/program.sh builds it)
#   --out      where the packages go (target/deb)
#   DEBEMAIL   the maintainer's address (one that does not exist)
#
# Needs dpkg-dev and binutils. Dependencies are those of the libraries that the program was linked with, so build it on
# the distribution that it is for. The same program and commit give the same packages, byte for byte.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${SCALEBRICKS:-} out=target/deb
while [ $# -gt 0 ]; do
    case "$1" in
    --binary | --out)
        [ $# -ge 2 ] || { printf '%s needs a value\n' "$1" >&2; exit 2; }
        [ "${1#--}" = out ] || [ -e "$2" ] || { printf '%s: no such file: %s\n' "$1" "$2" >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    *)
        sed -n '2,12s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
    esac
done
for tool in dpkg-deb dpkg-shlibdeps objcopy; do
    command -v $tool >/dev/null || { printf 'no %s (on Debian: apt install dpkg-dev binutils)\n' $tool >&2; exit 1; }
done
[ -n "$binary" ] || binary=$(scripts/program.sh)

umask 022
# One time for all files and the changelog.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root symbols=$work/symbols
version=$("$binary" --version | awk 'NR == 1 { print $2 }')
case "$version" in [0-9]*) ;; *) printf '%s --version gives no version: %s\n' "$binary" "$version" >&2; exit 1 ;; esac
# A hyphen would begin the package's revision, and 0.2.0~rc.1 is older than 0.2.0.
version=${version/-/\~}-1
maintainer="$(sed -n 's/^authors = \["\(.*\)"\]/\1/p' Cargo.toml) <${DEBEMAIL:-packages@scalebricks.invalid}>"
architecture=$(dpkg --print-architecture)

file() { install -D -m "${3:-644}" "$1" "$root$2"; }
compressed() { mkdir -p "$(dirname "$root$2")" && gzip -9n <"$1" >"$root$2" && chmod 644 "$root$2"; }

file "$binary" /usr/bin/scalebricks 755
objcopy --only-keep-debug --compress-debug-sections "$root/usr/bin/scalebricks" "$work/debug"
strip --strip-unneeded --remove-section=.comment "$root/usr/bin/scalebricks"

# The repository's units are for a program in /usr/local.
for unit in deploy/scalebricks-*.service; do
    # The instructions at the head are for an installation by hand.
    sed -e '1,/^\[Unit\]/{/^#/d}' -e 's|/usr/local/bin/scalebricks|/usr/bin/scalebricks|' \
        -e 's|/usr/local/share/doc/scalebricks|/usr/share/doc/scalebricks|' "$unit" >"$work/unit"
    file "$work/unit" "/lib/systemd/system/${unit##*/}"
done
file deploy/deb/log-user.conf /lib/systemd/system/scalebricks-log.service.d/user.conf
file deploy/deb/sysusers.conf /usr/lib/sysusers.d/scalebricks.conf
file deploy/deb/tmpfiles.conf /usr/lib/tmpfiles.d/scalebricks.conf

# Examples to edit, under the names that the units read.
etc() { file "$1" "/etc/scalebricks/$2" && printf '/etc/scalebricks/%s\n' "$2" >>"$work/conffiles"; }
etc examples/node/node1.toml node.toml
etc examples/switch/names.csv names.csv
etc examples/router/node.toml router.toml
etc examples/router/node-routes.txt node-routes.txt
etc deploy/nats/local.conf nats.conf
# Beside the other sockets, and not in /etc.
sed '/^admin = /d' examples/switch/switch.toml >"$work/switch.toml"
etc "$work/switch.toml" switch.toml

# What operators read, and what the units refer to.
for page in admin click control-plane deployment elements engines firewall flows nat node router router-howto switch; do
    file "docs/$page.md" "/usr/share/doc/scalebricks/$page.md"
done
for part in deploy/nats deploy/grafana deploy/prometheus examples/node examples/switch examples/router; do
    for one in "$part"/*; do file "$one" "/usr/share/doc/scalebricks/examples/${part#*/}/${one##*/}"; done
done
file deploy/deb/copyright /usr/share/doc/scalebricks/copyright
compressed CHANGELOG.md /usr/share/doc/scalebricks/changelog.gz
printf 'scalebricks (%s) stable; urgency=medium\n\n  * Version %s. changelog.gz lists the changes.\n\n -- %s  %s\n' \
    "$version" "${version%-1}" "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$work/changelog"
compressed "$work/changelog" /usr/share/doc/scalebricks/changelog.Debian.gz
file deploy/deb/lintian-overrides /usr/share/lintian/overrides/scalebricks

"$binary" man "$work/man" >/dev/null
for page in "$work"/man/*.1; do compressed "$page" "/usr/share/man/man1/${page##*/}.gz"; done
completions() { "$binary" completions "$1" >"$work/completions" && file "$work/completions" "$2"; }
completions bash /usr/share/bash-completion/completions/scalebricks
completions zsh /usr/share/zsh/vendor-completions/_scalebricks
completions fish /usr/share/fish/vendor_completions.d/scalebricks.fish

# The libraries that the program was linked with. dpkg-shlibdeps wants the description of a source package.
mkdir -p "$work/debian"
printf 'Source: scalebricks\n\nPackage: scalebricks\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info root/usr/bin/scalebricks | sed -n 's/^shlibs:Depends=//p')
recommends=''
# Drivers are libraries that the program loads when it starts.
if abi=$(objdump -p "$root/usr/bin/scalebricks" | sed -n 's/.*NEEDED *librte_eal\.so\.\([0-9]*\)$/\1/p') && [ -n "$abi" ]; then
    depends+=", librte-meta-bus, librte-meta-mempool"
    for driver in af-packet af-xdp null ring; do depends+=", librte-net-$driver$abi"; done
    recommends='dpdk, librte-meta-net'
fi

# A package from the files in a directory: NAME DIRECTORY, and the rest of the control file on standard input.
package() {
    local name=$1 from=$2 file
    mkdir -p "$from/DEBIAN" "$out"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$name" "$version" "$architecture" "$maintainer"
        printf 'Installed-Size: %s\n' "$(du -k -s --apparent-size --exclude=DEBIAN "$from" | cut -f 1)"
        cat
    } >"$from/DEBIAN/control"
    (cd "$from" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$from/DEBIAN/md5sums"
    find "$from" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    file=$out/${name}_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zxz --build "$from" "$file" >/dev/null
    printf '%s\n' "$file"
}

mkdir -p "$root/DEBIAN"
cp "$work/conffiles" "$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "deploy/deb/$script" "$root/DEBIAN/$script"; done
package scalebricks "$root" <<CONTROL
Depends: $depends, procps, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
${recommends:+Recommends: $recommends
}Section: net
Priority: optional
Description: cluster of servers as one stateful network appliance
 ScaleBricks makes a cluster of servers one packet gateway, firewall, NAT,
 switch or router. Every node knows with a few bits per flow which node has a
 flow's state, so a packet crosses the fabric at most once.
 .
 This package has the program, systemd units that are not enabled, and example
 configurations in /etc/scalebricks. Nodes of a cluster need a NATS server of
 version 2.15 or newer, which Debian does not have.
CONTROL

# Where debuggers look for symbols.
identity=$(objdump -s -j .note.gnu.build-id "$root/usr/bin/scalebricks" | awk '/^ / { for (i = 2; i <= 5; i++) if ($i ~ /^[0-9a-f]+$/ && length($i) <= 8) printf "%s", $i }' | cut -c 33-)
[ ${#identity} -ge 16 ] || { printf '%s has no build id\n' "$binary" >&2; exit 1; }
install -D -m 644 "$work/debug" "$symbols/usr/lib/debug/.build-id/${identity:0:2}/${identity:2}.debug"
install -d "$symbols/usr/share/doc"
ln -s scalebricks "$symbols/usr/share/doc/scalebricks-dbgsym"
package scalebricks-dbgsym "$symbols" <<CONTROL
Depends: scalebricks (= $version)
Section: debug
Priority: optional
Auto-Built-Package: debug-symbols
Build-Ids: $identity
Description: debug symbols for scalebricks
 For debuggers and profilers.
CONTROL
