#!/usr/bin/env bash
# Has a parser that is not ours judge what the demo's nodes send: nothing malformed, no checksum wrong, every tunnelled
# packet decoded as GTP-U with an IP packet in it.
#
#   scripts/check-pcap.sh [CAPTURE]
#
# Without CAPTURE a small one is made. tshark judges, else scapy; with neither the check is skipped (status 77), or
# fails if REQUIRE_TSHARK=1. SCALEBRICKS names a demo other than the one built here.
set -euo pipefail
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "${SCALEBRICKS:-}" ]; then
    demo=$SCALEBRICKS
else
    cargo build --quiet --release --locked -p scalebricks --bin scalebricks
    demo=${CARGO_TARGET_DIR:-target}/release/scalebricks
fi

capture=${1:-}
checksums=TRUE
if [ -z "$capture" ]; then
    capture=$work/sample.pcap
    cargo run --quiet --release --locked -p scalebricks-io --example sample_capture -- "$capture"
else
    # Captures are taken where network cards compute checksums later.
    checksums=FALSE
fi
"$demo" demo --pcap "$capture" --out "$work/out"

shopt -s nullglob
files=("$work"/out/*.pcap "$work"/out/*.pcapng "$work"/out/*.gz)
if [ ${#files[@]} = 0 ]; then
    echo 'the demo wrote no capture' >&2
    exit 1
fi

# Frames of a capture that a display filter selects, one a line.
select_frames() {
    tshark -n -r "$1" -o ip.check_checksum:$checksums -o udp.check_checksum:$checksums \
        -o tcp.check_checksum:$checksums -Y "$2" 2>"$work/stderr" || { cat "$work/stderr" >&2 && return 1; }
}

count() { select_frames "$@" | wc -l; }

judge_by_tshark() {
    local file bad total tunnelled all_tunnelled=0 failed=0
    for file in "${files[@]}"; do
        total=$(count "$file" frame)
        tunnelled=$(count "$file" 'gtp.message == 0xff && frame.protocols contains "gtp:ip"')
        all_tunnelled=$((all_tunnelled + tunnelled))
        printf '%s: %d frames, %d tunnelled\n' "${file##*/}" "$total" "$tunnelled"
        for bad in '_ws.malformed' '_ws.expert.severity == "Error"' 'udp.dstport == 2152 && !gtp && !icmp' \
            'gtp.message == 0xff && !(frame.protocols contains "gtp:ip")'; do
            if [ "$(count "$file" "$bad")" -gt 0 ]; then
                printf '%s: frames match %s:\n' "${file##*/}" "$bad" >&2
                select_frames "$file" "$bad" | sed -n 1,5p >&2
                failed=1
            fi
        done
    done
    if [ $all_tunnelled = 0 ]; then
        echo 'no packet was tunnelled' >&2
        failed=1
    fi
    return $failed
}

judge_by_scapy() {
    python3 - "$checksums" "${files[@]}" <<'PYTHON'
import sys
from scapy.all import IP, IPv6, UDP, PcapReader, raw
from scapy.contrib.gtp import GTP_U_Header

def wrong_checksum(packet):
    while packet:
        if isinstance(packet, IP):
            again = IP(raw(packet))
            del again.chksum
            if IP(raw(again)).chksum != packet.chksum:
                return True
        packet = packet.payload
    return False

tunnelled, bad = 0, []
for path in sys.argv[2:]:
    for number, packet in enumerate(PcapReader(path), 1):
        if UDP in packet and packet[UDP].dport == 2152:
            header = packet.getlayer(GTP_U_Header)
            inside = header is not None and header.gtp_type == 255 and (IP in header.payload or IPv6 in header.payload)
            tunnelled += inside
            if header is None or (header.gtp_type == 255 and not inside):
                bad.append(f"{path}: frame {number}: not GTP-U with an IP packet in it")
        if sys.argv[1] == "TRUE" and wrong_checksum(packet):
            bad.append(f"{path}: frame {number}: wrong IPv4 checksum")
print(f"{tunnelled} packets tunnelled")
print("\n".join(bad[:10]), file=sys.stderr)
sys.exit(bool(bad) or not tunnelled)
PYTHON
}

"judge_by_$judge"
echo "$judge found nothing wrong"
