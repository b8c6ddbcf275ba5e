#!/usr/bin/env bash
# Builds a container image, and writes it as an OCI archive. The image has a minimal Debian 12 and the package of
# scripts/deb.sh with its dependencies; its base is no other image.
#
#   scripts/image.sh [--binary PATH | --deb PACKAGE] [--out FILE]
#
#   --binary  the program, packaged by scripts/deb.sh, which builds it by default
#   --deb     a package of scripts/deb.sh in its place
#   --out     the archive (target/image/scalebricks.tar); `podman load -i FILE` or `skopeo copy oci-archive:FILE …`
#
# Needs mmdebstrap and buildah, and for a user other than root uidmap and a range of identifiers in /etc/subuid and
# /etc/subgid. No root rights and no daemon are needed. The mirror is that of this machine's apt configuration.
set -euo pipefail
cd "$(dirname "$0")/.."

binary='' deb='' out=target/image/scalebricks.tar
while [ $# -gt 0 ]; do
    case "$1" in
    --binary | --deb | --out)
        [ $# -ge 2 ] || { printf '%s needs a value\n' "$1" >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    *)
        sed -n '2,13s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
    esac
done
for tool in mmdebstrap buildah; do
    command -v $tool >/dev/null || { printf 'no %s (on Debian: apt install mmdebstrap buildah uidmap)\n' $tool >&2; exit 1; }
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
mkdir -p "$(dirname "$out")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$deb" ]; then deb=$(scripts/deb.sh ${binary:+--binary "$binary"} --out "$work" | sed -n 1p); fi
version=$(dpkg-deb -f "$deb" Version)
# Where a process in another user namespace can read it.
chmod 755 "$work"
install -m 644 "$deb" "$work/scalebricks.deb"

mirror=$(apt-get --print-uris update | sed -n "s|^'\(.*\)/dists/bookworm/InRelease'.*|\1|p" | sed -n 1p)
[ -n "$mirror" ] || { printf 'the apt configuration has no mirror of Debian 12\n' >&2; exit 1; }
# Without documentation, translations and lists of packages. Small stand-ins for systemd create user and directories.
# shellcheck disable=SC2016 # expanded by the hook's shell
mmdebstrap --quiet --variant=essential --skip=check/empty --skip=cleanup/run \
    --include=systemd-standalone-sysusers,systemd-standalone-tmpfiles \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount --include="$work/scalebricks.deb" \
    --customize-hook='install -d -o "$(chroot "$1" id -u scalebricks)" -g "$(chroot "$1" id -g scalebricks)" "$1/run/scalebricks"' \
    --customize-hook='rm -rf "$1"/var/cache/* "$1"/var/log/*' \
    --customize-hook='sed -i "/^path-exclude/d; /^path-include/d" "$1"/etc/dpkg/dpkg.cfg.d/99mmdebstrap' \
    bookworm "$work/root.tar" "$mirror"

# Only a file system and its description: nothing runs, so no privilege is needed.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root.tar" / >/dev/null
buildah config --user scalebricks --stop-signal SIGTERM --workingdir / \
    --entrypoint '["/usr/bin/scalebricks"]' --cmd 'node run --quiet --log json /etc/scalebricks/node.toml' \
    --label org.opencontainers.image.title=scalebricks --label "org.opencontainers.image.version=$version" \
    --label 'org.opencontainers.image.licenses=Apache-2.0 OR MIT' "$container"
rm -f "$out"
buildah commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$container" "oci-archive:$out:scalebricks:${version//\~/-}" >/dev/null
printf '%s\n' "$out"
