#!/usr/bin/env bash
# Runs a container image of scripts/image.sh: the program, the check of a configuration, and a node on devices that need
# no hardware.
#
#   scripts/image-test.sh [ARCHIVE]    (target/image/scalebricks.tar)
#
# Needs root and podman. Exit status 77: cannot run here.
#
#   PODMAN  the command with its global options (podman); where crun does not know the host's control groups,
#           PODMAN="podman --runtime runc"
set -euo pipefail
cd "$(dirname "$0")/.."
archive=${1:-target/image/scalebricks.tar}
read -ra podman <<<"${PODMAN:-podman}"
command -v "${podman[0]}" >/dev/null || { printf 'skipped: no podman (on Debian: apt install podman)\n'; exit 77; }
# No overlays: they cannot be made where / is one.
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

work=$(mktemp -d)
name=scalebricks-image-test-$$
image=''
clean() {
    "${podman[@]}" rm --force --time 5 $name >/dev/null 2>&1 || true
    [ -z "$image" ] || "${podman[@]}" rmi --force "$image" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT
passed=0 failed=0
expect() {
    if [ "$2" = "$3" ]; then printf 'ok      %s: %s\n' "$1" "$2"; passed=$((passed + 1)); else
        printf "FAILED  %s: expected '%s', found '%s'\n" "$1" "$2" "$3"
        failed=$((failed + 1))
    fi
}

image=$("${podman[@]}" load --quiet --input "$archive" | sed -n 's/^Loaded image: *//p' | sed -n 1p)
[ -n "$image" ] || { printf 'podman loaded no image from %s\n' "$archive" >&2; exit 1; }
# Limits that every host permits: those that podman asks for are higher than some hosts'.
limits=(--ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
run=("${podman[@]}" run --network none "${limits[@]}")

label=$("${podman[@]}" image inspect --format '{{ index .Labels "org.opencontainers.image.version" }}' "$image")
found=$("${run[@]}" --rm "$image" --version | awk 'NR == 1 { print $2 }')
expect 'version of the program' "${label%-1}" "${found/-/\~}"
expect 'user of the image' scalebricks "$("${run[@]}" --rm --entrypoint id "$image" -un)"
refused=0
"${run[@]}" --rm "$image" node check --elsewhere --quiet /etc/scalebricks/node.toml >"$work/out" 2>&1 || refused=$?
expect 'exit status of the check without secrets' 1 $refused

# A node, with the rights that docs/deployment.md gives it.
mkdir "$work/etc"
scripts/one-node.sh "$work/etc"
chmod -R a+rX "$work"
"${run[@]}" --detach --name $name --user 0 --read-only --tmpfs /run/scalebricks --tmpfs /run/dpdk \
    --cap-drop all --cap-add NET_ADMIN,NET_RAW,IPC_LOCK,SYS_NICE --volume "$work/etc:/etc/scalebricks:ro" "$image" \
    node run --quiet --log json /etc/scalebricks/node.toml >/dev/null
state=''
for _ in $(seq 100); do
    state=$("${podman[@]}" exec $name scalebricks status 2>/dev/null | sed -n 's/^ *state *\([a-z]*\).*/\1/p') || true
    [ "$state" = ready ] && break
    sleep 0.2
done
expect 'the node' ready "$state"
[ "$state" = ready ] || "${podman[@]}" logs $name 2>&1 | tail -n 5
"${podman[@]}" stop --time 20 $name >/dev/null
expect 'exit status after SIGTERM' 0 "$("${podman[@]}" inspect --format '{{ .State.ExitCode }}' $name)"
printf '%d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
