# A clean Debian 12 in a folder. Sourced by scripts/deb-test.sh and scripts/quickstart-test, which define `cannot`.
# shellcheck shell=bash
# shellcheck disable=SC2034 # $root is for those

[ "$(id -u)" = 0 ] || cannot 'no root rights'
command -v debootstrap >/dev/null || cannot 'no debootstrap (on Debian: apt install debootstrap)'
unshare --mount --pid --fork true 2>/dev/null || cannot 'no right to create namespaces'
mirror=$(apt-get --print-uris update | sed -n "s|^'\(.*\)/dists/bookworm/InRelease'.*|\1|p" | sed -n 1p)
[ -n "$mirror" ] || cannot 'apt has no mirror of Debian 12'

# Sets $root to a copy of the system in target/debian-12, which is made once. It has an empty folder /test. The copy is
# removed when the script ends.
clean_root() {
    local base=$PWD/target/debian-12/base
    if [ ! -e "$base.complete" ]; then
        rm -rf "$base"
        mkdir -p "$base"
        debootstrap --variant=minbase bookworm "$base" "$mirror" >"$base.log" 2>&1 || { tail "$base.log"; exit 1; }
        touch "$base.complete"
    fi
    root=$(mktemp -d "$PWD/target/debian-12/root.XXXXXX")
    trap 'rm -rf --one-file-system "$root"' EXIT
    cp -a "$base/." "$root"
    printf 'deb %s bookworm main\n' "$mirror" >"$root/etc/apt/sources.list"
    # The way to the mirror and to other registries: proxies and certificates.
    if [ -d /usr/local/share/ca-certificates ]; then cp -a /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
    apt-config dump Acquire | grep -E '^Acquire::(http|https)::' >"$root/etc/apt/apt.conf.d/90way" || true
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mkdir "$root/test"
}

# Runs /test/SCRIPT in $root, with further folders: `in_clean_root SCRIPT [SOURCE TARGET]...`.
in_clean_root() {
    # shellcheck disable=SC2016 # expanded inside
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1 script=$2
        shift 2
        # `ip netns exec` wants a file system mounted on /.
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount -t sysfs -o ro sysfs "$root/sys"
        mount -t tmpfs -o mode=755 tmpfs "$root/run"
        while [ $# -gt 0 ]; do
            mkdir -p "$root$2"
            mount --rbind "$1" "$root$2"
            shift 2
        done
        exec chroot "$root" /bin/bash "/test/$script"' _ "$root" "$@"
}
