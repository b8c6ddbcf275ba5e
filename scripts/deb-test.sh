#!/usr/bin/env bash
# Installs a package of scripts/deb.sh in a clean Debian 12, uses it, removes and purges it, and boots it with systemd.
#
#   scripts/deb-test.sh PACKAGE.deb
#
# Needs root, debootstrap, and the package mirror of this machine's apt configuration. The clean system is made once, in
# target/debian-12; tests use a copy. Exit status 77: cannot run here; with REQUIRE_DEB_TEST=1 that is a failure, too. The
# boot needs systemd-nspawn; without it, it is skipped or, with REQUIRE_DEB_TEST=1, fails.
#
#   NATS_SERVER  a nats-server for the log's unit (the one that scripts/nats.sh finds; without one, that part is skipped)
set -euo pipefail
[ $# = 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
package=$(realpath -- "$1")
cd "$(dirname "$0")/.."

cannot() {
    printf 'skipped: %s\n' "$1"
    if [ "${REQUIRE_DEB_TEST:-}" = 1 ]; then exit 1; fi
    exit 77
}
# shellcheck source=scripts/clean-root.sh
. scripts/clean-root.sh

clean_root
cp "$package" "$root/test/scalebricks.deb"
scripts/one-node.sh "$root/test"
# The readiness probe of Kubernetes.
sed -n 's/.*command: \[sh, -c, "\(.*\)"\] }$/\1/p' deploy/kubernetes/base/node.yaml | sed 's/\\"/"/g' >"$root/test/probe"
if server=${NATS_SERVER:-$(scripts/nats.sh path 2>/dev/null)}; then install -m 755 "$server" "$root/usr/local/bin/nats-server"; fi

# The test inside. `expect WHAT EXPECTED FOUND` compares.
cat >"$root/test/inside" <<'INSIDE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
passed=0 failed=0
ok() { printf 'ok      %s\n' "$1"; passed=$((passed + 1)); }
wrong() { printf 'FAILED  %s\n' "$1"; failed=$((failed + 1)); }
check() { local what=$1; shift; if "$@" >/test/out 2>&1; then ok "$what"; else wrong "$what"; tail -n 20 /test/out; fi; }
fails() { local what=$1; shift; if "$@" >/test/out 2>&1; then wrong "$what"; else ok "$what"; fi; }
expect() { if [ "$2" = "$3" ]; then ok "$1: $2"; else wrong "$1: expected '$2', found '$3'"; fi; }

version=$(dpkg-deb -f /test/scalebricks.deb Version)
apt-get update -q >/test/out 2>&1 || { cat /test/out; exit 1; }
check 'install with dependencies' apt-get install -qy --no-install-recommends /test/scalebricks.deb
expect 'state of the package' 'install ok installed' "$(dpkg-query -Wf '${Status}' scalebricks)"
found=$(scalebricks --version | awk 'NR == 1 { print $2 }')
expect 'version of the program' "${version%-1}" "${found/-/\~}"
expect 'libraries that are missing' '' "$(ldd /usr/bin/scalebricks | grep 'not found' || true)"
expect 'files that differ from the package' '' "$(dpkg --verify scalebricks)"

# User, directories, modes.
expect 'user' 'scalebricks /var/lib/scalebricks-log /usr/sbin/nologin' "$(getent passwd scalebricks | awk -F: '$3 < 1000 { print $1, $6, $7 }')"
expect 'configurations' '750 root scalebricks' "$(stat -c '%a %U %G' /etc/scalebricks)"
expect 'state of nodes' '700 root root' "$(stat -c '%a %U %G' /var/lib/scalebricks)"
expect 'the log' '700 scalebricks scalebricks' "$(stat -c '%a %U %G' /var/lib/scalebricks-log)"
fails 'other users cannot read configurations' setpriv --reuid nobody --clear-groups cat /etc/scalebricks/node.toml
check 'the log server can read its configuration' setpriv --reuid scalebricks --regid scalebricks --clear-groups cat /etc/scalebricks/nats.conf

# Nothing is enabled or runs.
expect 'enabled units' '' "$(find /etc/systemd -name '*scalebricks*')"
expect 'processes' '' "$(grep -l '^scalebricks' /proc/[0-9]*/comm || true)"

# The example configurations, with the secrets that their instructions ask for.
cd /etc/scalebricks
fails 'a node without its key is refused' scalebricks node check --elsewhere --quiet node.toml
(umask 077 && for secret in cluster.key nats.password; do head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >$secret; done)
check 'node check' scalebricks node check --elsewhere --quiet /etc/scalebricks/node.toml
check 'switch check' scalebricks switch check --elsewhere --config /etc/scalebricks/switch.toml
check 'router check' scalebricks router check --elsewhere --config /etc/scalebricks/router.toml
sed 's/^nodes = 4/nodse = 4/' node.toml >wrong.toml
fails 'a misspelt key is refused' scalebricks node check --elsewhere --quiet /etc/scalebricks/wrong.toml
rm wrong.toml
if command -v nats-server >/dev/null; then
    check 'nats-server accepts its configuration' env NATS_LISTEN=127.0.0.1:4222 NATS_STORE=/var/lib/scalebricks-log \
        setpriv --reuid scalebricks --regid scalebricks --clear-groups nats-server -c /etc/scalebricks/nats.conf -t
else
    printf 'skipped: no nats-server\n'
fi

# Units. A planted mistake shows that systemd-analyze sees one.
check 'install systemd' apt-get install -qy --no-install-recommends systemd
units=/lib/systemd/system
command -v nats-server >/dev/null || install -m 755 /bin/true /usr/local/bin/nats-server
sed 's/^Type=.*/Type=exex/' $units/scalebricks-node.service >/test/scalebricks-wrong.service
verify() { systemd-analyze verify --man=no "$@" 2>&1 | grep scalebricks || true; }
expect 'mistakes that systemd sees in a wrong unit' 1 "$(verify /test/scalebricks-wrong.service | grep -c exex)"
for name in node switch router log; do expect "unit $name" '' "$(verify $units/scalebricks-$name.service)"; done
expect 'user of the log server' scalebricks "$(cat $units/scalebricks-log.service $units/scalebricks-log.service.d/*.conf | sed -n 's/^User=//p')"

# The unit's command runs a node, on devices that need no hardware.
cp /test/node.toml /test/flows.csv .
mkdir -p /run/scalebricks
expect 'lines of the probe' 1 "$(wc -l </test/probe)"
fails 'the probe without a node' sh /test/probe
for key in ExecStartPre ExecStart; do
    # shellcheck disable=SC2046 # words of the unit
    set -- $(sed -n "s/^$key=//p" $units/scalebricks-node.service)
    if [ $key = ExecStartPre ]; then check "$key of the node" "$@"; fi
done
"$@" >/test/node.log 2>&1 &
node=$!
state=''
for _ in $(seq 100); do
    state=$(scalebricks status 2>/dev/null | sed -n 's/^ *state *\([a-z]*\).*/\1/p') || true
    [ "$state" = ready ] && break
    sleep 0.2
done
expect 'the node' ready "$state"
[ "$state" = ready ] || tail -n 5 /test/node.log
check 'the probe of a node that is ready' sh /test/probe
kill -TERM $node
status=0
wait $node || status=$?
expect 'exit status after SIGTERM' 0 $status

# An edited configuration survives another installation.
check 'install again' dpkg --install --force-confold /test/scalebricks.deb
expect 'edited configuration' 'nodes = 1' "$(grep '^nodes' node.toml)"

cd /
check 'remove' apt-get remove -qy scalebricks
expect 'program and units after removal' '' "$(find /usr/bin/scalebricks $units -name '*scalebricks*' 2>/dev/null)"
expect 'configuration after removal' 'nodes = 1' "$(grep '^nodes' /etc/scalebricks/node.toml)"
touch /var/lib/scalebricks-log/entries /var/lib/scalebricks/state
check 'purge' apt-get purge -qy scalebricks
expect 'state of nodes after purging' '' "$(find /var/lib/scalebricks 2>/dev/null)"
expect 'the log after purging' /var/lib/scalebricks-log/entries "$(find /var/lib/scalebricks-log -type f)"
expect 'configurations after purging' 'cluster.key flows.csv nats.password' "$(ls /etc/scalebricks | tr '\n' ' ' | sed 's/ $//')"
expect 'packages that are half removed' '' "$(dpkg --audit)"
printf '%d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
INSIDE

in_clean_root inside

# The unit in a system that boots.
cat >"$root/test/enable" <<'ENABLE'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
apt-get install -qy --no-install-recommends systemd-sysv /test/scalebricks.deb >/test/out 2>&1 || { cat /test/out; exit 1; }
cp /test/node.toml /test/flows.csv /etc/scalebricks/
systemctl --quiet enable scalebricks-node
cat >/etc/systemd/system/booted.service <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /test/booted
StandardOutput=append:/test/booted.log
StandardError=inherit
ExecStopPost=/bin/systemctl poweroff
[Install]
WantedBy=multi-user.target
UNIT
systemctl --quiet enable booted
ENABLE
cat >"$root/test/booted" <<'BOOTED'
state() { scalebricks status 2>/dev/null | sed -n 's/^ *state *\([a-z]*\).*/\1/p'; }
is() { if [ "$2" = "$3" ]; then printf 'ok      %s: %s\n' "$1" "$2"; else printf 'FAILED  %s: expected %s, found %s\n' "$1" "$2" "$3"; fi; }
for _ in $(seq 100); do [ "$(state)" != ready ] || break; sleep 0.2; done
is 'the unit after the boot' active "$(systemctl is-active scalebricks-node)"
is 'its node' ready "$(state)"
systemctl kill --kill-who=main --signal=KILL scalebricks-node
for _ in $(seq 100); do [ "$(systemctl show -P NRestarts scalebricks-node)" = 0 ] || [ "$(state)" != ready ] || break; sleep 0.2; done
is 'its node after it was killed' ready "$(state)"
systemctl stop scalebricks-node
is 'the unit after systemctl stop' 'inactive success' "$(systemctl is-active scalebricks-node) $(systemctl show -P Result scalebricks-node)"
journalctl --no-pager --quiet -n 20 -u scalebricks-node
BOOTED
if command -v systemd-nspawn >/dev/null; then
    in_clean_root enable
    # The groups of processes as the host has them.
    [ -e /sys/fs/cgroup/cgroup.controllers ] || export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0
    timeout 120 systemd-nspawn --quiet --directory="$root" --boot --register=no --keep-unit >"$root/test/boot.log" 2>&1 || true
    cat "$root/test/booted.log" || tail -n 30 "$root/test/boot.log"
    [ "$(grep -c '^ok ' "$root/test/booted.log")" = 4 ] || { printf 'FAILED  the boot\n'; exit 1; }
else
    printf 'skipped: the boot: no systemd-nspawn (on Debian: apt install systemd-container)\n'
    [ "${REQUIRE_DEB_TEST:-}" != 1 ] || exit 1
fi

# The program has no symbols; they are in the other package.
mkdir "$root/unpacked"
dpkg-deb -x "$package" "$root/unpacked"
if readelf -S --wide "$root/unpacked/usr/bin/scalebricks" | grep ' \.symtab' >/dev/null; then printf 'FAILED  the program has symbols\n'; exit 1; fi
printf 'ok      the program is stripped\n'
