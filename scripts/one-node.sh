#!/usr/bin/env bash
# Writes node.toml and flows.csv of a cluster of one node, on devices of DPDK that need no hardware. Tests of packages use it.
#
#   scripts/one-node.sh DIRECTORY
set -euo pipefail
[ $# = 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
to=$(realpath -- "$1")
cd "$(dirname "$0")/.."

cat >"$to/node.toml" <<CONFIG
[cluster]
nodes = 1
secret = "$(head -c 16 /dev/urandom | od -An -v -tx1 | tr -d ' \n')"
gateway = "10.255.0.1"
gateway_v6 = "fd00:5b::1"
key = "ue"
[node]
id = 0
flows = "flows.csv"
[[base_station]]
address = "10.9.0.1"
[[port]]
role = "internet"
device = "net_null0"
addresses = ["192.0.2.11/24"]
gateways = ["192.0.2.1"]
[[port]]
role = "base-station"
device = "net_null1"
addresses = ["10.9.0.11/24"]
[[port]]
role = "fabric"
device = "net_null2"
CONFIG
sed -n '1,2p' examples/node/flows.csv >"$to/flows.csv"
