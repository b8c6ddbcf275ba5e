#!/usr/bin/env bash
# Checks the packets that the demo's nodes send with another parser than ours: nothing malformed, no wrong checksum, and
# every tunnelled packet decoded as GTP-U that contains an IP packet.
#
#   scripts/check-pcap.sh              generates a small capture, replays and checks it
#   scripts/check-pcap.sh CAPTURE      replays and checks this capture
#   scripts/check-pcap.sh DIRECTORY    checks the output of `scalebricks demo --pcap … --out DIRECTORY`
#
# Uses tshark, or scapy (headers only). With neither, the check is skipped (status 77), or fails if REQUIRE_TSHARK=1.
# SCALEBRICKS names another demo program than the one built here.
#
# Whole tunnel packets must have DF. Fragments must not, and an identification must be used by one node only. Without an
# argument, replays over a small link produce fragments at several nodes, and ICMP "fragmentation needed".
#
# Without an argument, tshark also checks every kind of frame that the slow path sends: questions, announcements, answers.
#
# Every frame sent must be complete and have at least one checksum, and all checksums must be right.
#
# The users' payload of a given capture is not checked, because it may contain anything: tshark then dissects nothing
# above UDP except GTP-U. The generated capture is valid, so its TCP, UDP and ICMP must also be valid when sent.
set -euo pipefail
given=${1:+$(realpath -- "$1")}
cd "$(dirname "$0")/.."

skip() {
    if [ "${REQUIRE_TSHARK:-}" = 1 ]; then
        printf 'required, but %s\n' "$1" >&2
        exit 1
    fi
    printf 'skipped: %s\n' "$1"
    exit 77
}

if command -v tshark >/dev/null; then
    judge=tshark
elif python3 -c 'import scapy.contrib.gtp' 2>/dev/null; then
    judge=scapy
    [ "${REQUIRE_TSHARK:-}" != 1 ] || skip 'no tshark'
else
    skip 'no tshark and no scapy (install with: apt-get install tshark, or: pip install scapy)'
fi

# Runs an example. EXAMPLES names the folder of those already built.
target=${CARGO_TARGET_DIR:-target}
example() {
    [ -n "${EXAMPLES:-}" ] || cargo build --quiet --locked --profile test --workspace --example "$1"
    "${EXAMPLES:-$target/debug/examples}/$1" "$2"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -d "$given" ]; then
    out=$given
else
    out=$work/out
    if [ -n "${SCALEBRICKS:-}" ]; then
        demo=$SCALEBRICKS
    else
        cargo build --quiet --release --locked -p scalebricks --bin scalebricks
        demo=$target/release/scalebricks
    fi
    capture=${given:-$work/sample.pcap}
    if [ -z "$given" ]; then
        example sample_capture "$capture"
    fi
    "$demo" demo --pcap "$capture" --out "$out" --json-file "$work/demo.json" --svg "$work/demo.svg"
    if [ -z "$given" ]; then
        for small in fragment icmp; do
            "$demo" demo --pcap "$capture" --out "$work/$small" --json-file "$work/demo.json" --svg "$work/demo.svg" \
                --arch scalebricks --base-station-mtu 600 --oversize $small >/dev/null
        done
    fi
fi

shopt -s nullglob
# Lists the captures in a directory as `files`.
captures_in() {
    files=("$1"/node-*.pcap)
    if [ ${#files[@]} = 0 ]; then
        printf '%s: no node-*.pcap\n' "$1" >&2
        exit 1
    fi
}
captures_in "$out"

# Nodes send from 02:5a:01:… to base stations, from 02:5a:00:… to the Internet.
to_station='eth.src[0:3] == 02:5a:01'

# Writes a configuration of tshark that disables all protocols except these patterns.
knows_only() {
    mkdir -p "$work/$1/wireshark"
    tshark -G protocols 2>/dev/null | cut -f3 |
        grep -vxE "frame|eth|ethertype|ip|ipv6|ipv6\\..*|udp|gtp|data|_ws\\..*|$2" >"$work/$1/wireshark/disabled_protos"
}

# Every frame of the captures is complete and every checksum in it is right; expects at least this many frames. Outer UDP
# may have none, as in GTP-U. Packets quoted by ICMP errors are not the sender's. IPv6 headers have no checksum.
judge_checksums_by_tshark() {
    local least=$1 whose=none file
    if [ -z "$given" ]; then whose='tcp|icmp|icmpv6'; fi
    knows_only checksums "$whose"
    for file in "${files[@]}"; do
        env "XDG_CONFIG_HOME=$work/checksums" tshark -n -2 -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE \
            -o tcp.check_checksum:TRUE -r "$file" -T fields -E separator=';' -E occurrence=a -E aggregator=, \
            -e frame.number -e _ws.malformed -e ip.checksum.status -e udp.checksum.status -e tcp.checksum.status \
            -e icmp.checksum.status -e icmpv6.checksum.status -e gtp.message -e icmp.type -e icmpv6.type -e ipv6.version \
            2>/dev/null | sed "s|^|${file##*/};|"
    done | awk -F';' -v least="$least" -v judges_all="$([ -z "$given" ] && echo 1 || echo 0)" '
        function bad(what) { if (++count <= 5) printf "%s: frame %s: %s\n", $1, $2, what; failed = 1 }
        # These checksum states must be good; the first of a tunnel may be 3 (absent).
        function look(states, name, most, may_be_none, all, at, n) {
            n = split(states, all, ",")
            for (at = 1; at <= n && at <= most; at++) {
                if (all[at] == 1 || all[at] == "Good") { right++; good[name]++ }
                else if (!(at == 1 && may_be_none && all[at] == 3)) bad(name " checksum: state " all[at])
            }
        }
        {
            right = 0
            split($10, type, ","); quotes = type[1] ~ /^(3|4|5|11|12)$/
            split($11, type6, ","); quotes6 = type6[1] != "" && type6[1] < 128
            if ($3 != "") bad("malformed")
            most = quotes || quotes6 ? ($9 != "" ? 2 : 1) : 99
            look($4, "IPv4", most, 0)
            if (!quotes && !quotes6) { look($5, "UDP", 99, $9 != ""); look($6, "TCP", 99, 0) }
            else if ($9 != "") look($5, "UDP", 1, 1)
            look($7, "ICMP", 1, 0)
            look($8, "ICMPv6", 1, 0)
            if (right > 0) verified++
            else if (judges_all || $12 == "") bad("no verified checksum")
            else bare++
        }
        END {
            printf "%d frames read, %d of them with verified checksums:", NR, verified
            for (name in good) printf " %s %d", name, good[name]
            printf "\n"
            if (verified + bare < least || verified == 0) { printf "fewer than the expected %d frames\n", least; failed = 1 }
            exit failed
        }'
}

judge_by_tshark() {
    knows_only config none
    # Two passes, so that a fragment is matched with later ones.
    local tshark=(env "XDG_CONFIG_HOME=$work/config" tshark -n -2 -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE)
    local fields=(-T fields -E separator=, -E occurrence=f -e frame.number -e ip.version -e ip.checksum.status
        -e ip.flags.mf -e ip.reassembled_in -e udp.dstport -e udp.checksum.status -e gtp.message -e gtp.teid
        -e ip.flags.df -e ip.frag_offset -e ip.dst -e ip.id)
    local file failed=0 tunnelled=0 numbers=$work/identifications
    : >"$numbers"
    for file in "${files[@]}"; do
        # Occurrences count from the outermost header; a display filter counts the tunnel's contents separately.
        if ! "${tshark[@]}" -r "$file" -Y "$to_station" "${fields[@]}" 2>/dev/null |
            awk -F, -v file="${file##*/}" -v numbers="$numbers" '
            function bad(what) { if (++count <= 5) printf "%s: frame %s: %s\n", file, $1, what; failed = 1 }
            $2 != 4 { bad("outer packet is not IPv4") }
            $3 != 1 && $3 != "Good" { bad("outer IPv4 checksum wrong") }
            { is_atomic = $10 ~ /^(1|True)$/; is_fragment = $4 ~ /^(1|True)$/ || $11 > 0 }
            is_atomic == is_fragment { bad(is_fragment ? "fragment with DF" : "whole packet without DF") }
            is_fragment { print $12, $13, file >>numbers }
            $4 ~ /^(1|True)$/ { fragments++; if ($5 == "") bad("outer fragment that is never completed"); next }
            $6 != 2152 { bad("not for UDP port 2152") }
            $7 == 0 || $7 == "Bad" { bad("outer UDP checksum wrong") }
            $8 !~ /^(0xff|255)$/ || $9 == "" { bad("not a GTP-U packet with a TEID") }
            END { printf "%s: %d GTP-U packets, %d fragments before their last\n", file, NR - fragments, fragments
                  exit failed }'; then
            failed=1
        fi
        local whole inner bad
        whole=$("${tshark[@]}" -r "$file" -Y "$to_station && gtp.message == 0xff" 2>/dev/null | wc -l)
        # The user's UDP may be inconsistent in a given capture, so only the user's IP header is required.
        inner=$("${tshark[@]}" -r "$file" -Y "$to_station && gtp.message == 0xff &&
            ((ip.version#2 == 4 && ip.len#2 >= 20) || ipv6.version == 6)" 2>/dev/null | wc -l)
        tunnelled=$((tunnelled + whole))
        if [ "$whole" != "$inner" ]; then
            printf '%s: %d of %d GTP-U packets without a valid IP packet in them\n' "${file##*/}" $((whole - inner)) "$whole"
            failed=1
        fi
        bad=$("${tshark[@]}" -r "$file" -Y "!($to_station) && !ip && !ipv6" 2>/dev/null | wc -l)
        if [ "$bad" != 0 ]; then
            printf '%s: %d frames for the Internet that are not IP\n' "${file##*/}" "$bad"
            failed=1
        fi
    done
    if [ $tunnelled = 0 ]; then
        echo 'no packet was tunnelled'
        failed=1
    fi
    # Counts, per destination and identification, the nodes that used it.
    if ! sort -u "$numbers" | awk '{ nodes[$1 " " $2]++ }
        END { for (number in nodes) if (nodes[number] > 1) { print "fragments of several nodes: " number; failed = 1 }
              exit failed }'; then
        failed=1
    fi
    return $failed
}

# Fragments of the last checked captures must come from several nodes; otherwise their identifications prove nothing.
judge_senders_of_fragments() {
    local senders
    senders=$(cut -d ' ' -f 3 "$work/identifications" | sort -u | wc -l)
    printf 'small link: fragments from %d nodes\n' "$senders"
    [ "$senders" -gt 1 ]
}

# Every refusal must be valid and quote a packet with DF.
judge_refusals_by_tshark() {
    mkdir -p "$work/plain"
    local file refusals=0 good=0 tshark=(env "XDG_CONFIG_HOME=$work/plain" tshark -n -o ip.check_checksum:TRUE)
    local refusal='icmp.type == 3 && icmp.code == 4 && !gtp'
    for file in "${files[@]}"; do
        refusals=$((refusals + $("${tshark[@]}" -r "$file" -Y "$refusal" 2>/dev/null | wc -l)))
        good=$((good + $("${tshark[@]}" -r "$file" -Y "$refusal && ip.checksum.status#1 == 1 && ip.flags.df#2 == 1 &&
            icmp.checksum.status == 1 && icmp.mtu >= 500 && icmp.mtu < 600" 2>/dev/null | wc -l)))
    done
    printf 'small link: %d refusals, %d of them valid and about packets with DF\n' "$refusals" "$good"
    [ "$refusals" -gt 0 ] && [ "$refusals" = "$good" ]
}

# Frames of the slow path: each is complete and of a known kind, and all its own checksums are right.
judge_local_by_tshark() {
    local file=$work/local.pcap
    example local_capture "$file"
    mkdir -p "$work/plain"
    # First occurrences only: an ICMP error's quoted packet is not the node's.
    env "XDG_CONFIG_HOME=$work/plain" tshark -n -2 -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -r "$file" \
        -T fields -E separator=, -E occurrence=f -e frame.number -e arp.opcode -e ip.checksum.status \
        -e udp.checksum.status -e gtp.message -e icmp.type -e icmp.checksum.status -e icmpv6.type \
        -e icmpv6.checksum.status -e _ws.malformed -e _ws.expert.severity 2>/dev/null | awk -F, '
        function bad(what) { if (++count <= 5) printf "local: frame %s: %s\n", $1, what; failed = 1 }
        function good(status) { return status == 1 || status == "Good" }
        $10 != "" || $11 >= 6291456 { bad("malformed") } # 0x600000: a warning
        $2 != "" { kinds["arp " $2]++; next }
        $8 != "" { kinds["icmpv6 " $8]++; if (!good($9)) bad("ICMPv6 checksum wrong"); next }
        !good($3) { bad("IPv4 checksum wrong") }
        $6 != "" { kinds["icmp " $6]++; if (!good($7)) bad("ICMP checksum wrong"); next }
        $5 != "" { kinds["gtpu " $5]++; if (!good($4)) bad("UDP checksum wrong"); next }
        { bad("unknown kind") }
        END {
            for (kind in kinds) known++
            printf "local: %d frames of %d kinds\n", NR, known
            # ARP 2, neighbour discovery 2, echo replies 2, unreachable 2, GTP-U 3.
            if (known != 11) bad(known " kinds, not 11")
            exit failed
        }'
}

judge_by_scapy() {
    python3 - "${files[@]}" <<'PYTHON'
import sys
from scapy.all import IP, IPv6, UDP, Ether, PcapReader, raw
from scapy.contrib.gtp import GTP_U_Header

tunnelled, bad = 0, []
for path in sys.argv[1:]:
    for number, packet in enumerate(PcapReader(path), 1):
        if not packet[Ether].src.startswith("02:5a:01"):
            continue
        again = IP(raw(packet[IP]))
        del again.chksum
        if IP(raw(again)).chksum != packet[IP].chksum:
            bad.append(f"{path}: frame {number}: outer IPv4 checksum wrong")
        if packet[IP].flags.MF or packet[IP].frag:
            continue
        header = packet.getlayer(GTP_U_Header)
        inside = header is not None and header.gtp_type == 255 and (IP in header.payload or IPv6 in header.payload)
        tunnelled += inside
        if not inside or packet[UDP].dport != 2152:
            bad.append(f"{path}: frame {number}: not GTP-U with an IP packet in it")
print(f"{tunnelled} packets tunnelled")
print("\n".join(bad[:10]))
sys.exit(bool(bad) or not tunnelled)
PYTHON
}

"judge_by_$judge"
if [ $judge = tshark ]; then
    # All frames of the generated capture are sent; of a given capture, at least one.
    least=1
    if [ -z "$given" ]; then least=$(tshark -n -r "$capture" 2>/dev/null | wc -l); fi
    judge_checksums_by_tshark "$least"
fi
if [ -z "$given" ] && [ $judge = tshark ]; then
    captures_in "$work/fragment"
    judge_by_tshark
    judge_checksums_by_tshark "$least"
    judge_senders_of_fragments
    captures_in "$work/icmp"
    judge_by_tshark
    judge_checksums_by_tshark "$least"
    judge_refusals_by_tshark
    judge_local_by_tshark
fi
echo "$judge found nothing wrong"
