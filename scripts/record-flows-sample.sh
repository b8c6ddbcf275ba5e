#!/usr/bin/env bash
# Records examples/flows/sample.pcap.gz anew: scripts/record-flows-sample.sh [FILE]
#
# Two network namespaces talk over a link that loses, repeats and delays frames: HTTP by curl, pings that are fragmented, UDP
# with large answers, connections that are reset, refused, or answered by nobody; over IPv4 and IPv6. Each run gives other
# packets, so that the exceptions of crates/scalebricks/tests/flows may have to be listed anew. The link is a program between
# two TAP devices; it records what the client sends and receives. Needs root, curl, ping, ethtool and python3. Exits with 77
# if one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

file=$(realpath -m "${1:-examples/flows/sample.pcap.gz}")
here=sbsample$$
client=$here-c server=$here-s
work=$(mktemp -d)
jobs=()

missing() {
    echo "record-flows-sample: $1" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || missing "needs root"
for tool in curl ping python3 ethtool ip gzip; do
    command -v "$tool" >/dev/null || missing "needs $tool"
done

finish() {
    [ ${#jobs[@]} -eq 0 ] || kill "${jobs[@]}" 2>/dev/null || true
    ip netns delete "$client" 2>/dev/null || true
    ip netns delete "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# The link. A frame is lost with 3 %, repeated with 2 %, and delayed by 20 ms with 8 %, else by 1 ms.
cat >"$work/link.py" <<'PYTHON'
import fcntl, heapq, os, random, select, signal, struct, sys, time

names, capture, ready = sys.argv[1:3], open(sys.argv[3], "wb"), sys.argv[4]
IFF_TAP, IFF_NO_PI, TUNSETIFF = 0x0002, 0x1000, 0x400454CA

def tap(name):
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return file

def record(frame):
    now = time.time_ns()
    capture.write(struct.pack("<IIII", now // 10**9, now % 10**9 // 1000, len(frame), len(frame)) + frame)

capture.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
taps = [tap(name) for name in names]
going = True

def stop(*_):
    global going
    going = False

signal.signal(signal.SIGTERM, stop)
open(ready, "w").close()
waiting, number = [], 0
while going:
    left = waiting[0][0] - time.monotonic() if waiting else 0.1
    for file in select.select(taps, [], [], max(0, min(left, 0.1)))[0]:
        frame, end = os.read(file, 65_535), taps.index(file)
        if end == 0:
            record(frame)
        if random.random() < 0.03:
            continue
        for _ in range(2 if random.random() < 0.02 else 1):
            number += 1
            delay = 0.02 if random.random() < 0.08 else 0.001
            heapq.heappush(waiting, (time.monotonic() + delay, number, 1 - end, frame))
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, end, frame = heapq.heappop(waiting)
        if end == 0:
            record(frame)
        try:
            os.write(taps[end], frame)
        except OSError:
            pass  # the device is not up yet
capture.close()
PYTHON
python3 "$work/link.py" "sbc$$" "sbs$$" "$work/sample.pcap" "$work/link" &
link=$!
jobs+=("$link")
await() {
    for _ in $(seq 600); do
        [ ! -e "$1" ] || return 0
        sleep 0.1
    done
    missing "$2 did not start"
}
await "$work/link" "the link (it needs /dev/net/tun)"
number=1
for end in "$client sbc$$" "$server sbs$$"; do
    read -r netns device <<<"$end"
    ip netns add "$netns"
    ip link set "$device" netns "$netns"
    ip -n "$netns" link set lo up
    # Packets as they are on a wire: no segments of many packets, and checksums that are right.
    ip netns exec "$netns" ethtool -K "$device" tx off tso off gso off gro off >/dev/null
    ip -n "$netns" address add "192.0.2.$number/24" dev "$device"
    ip -n "$netns" address add "2001:db8::$number/64" dev "$device" nodad
    ip -n "$netns" link set "$device" up
    number=$((number + 1))
done

# An address where nobody answers.
ip -n "$client" neighbour add 192.0.2.9 lladdr 02:00:00:00:00:09 dev "sbc$$"

# The server: files by HTTP, large answers to UDP, and a port whose connections are reset.
cat >"$work/server.py" <<'PYTHON'
import http.server, os, socket, struct, threading

class Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = bytes(range(256)) * (int(self.path.strip("/")) // 256)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass

class Http(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6

def resets():
    listener = socket.create_server(("::", 82), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        accepted, _ = listener.accept()
        accepted.recv(10)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()

def answers():
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.bind(("::", 7777))
    while True:
        asked, peer = udp.recvfrom(100)
        udp.sendto(asked * 500, peer)

threading.Thread(target=resets, daemon=True).start()
threading.Thread(target=answers, daemon=True).start()
server = Http(("::", 80), Files)
open(os.environ["READY"], "w").close()
server.serve_forever()
PYTHON
READY=$work/ready ip netns exec "$server" python3 "$work/server.py" 2>"$work/server.log" &
jobs+=($!)
await "$work/ready" "the server"

cat >"$work/client.py" <<'PYTHON'
import socket, sys

host = sys.argv[1]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
udp = socket.socket(family, socket.SOCK_DGRAM)
udp.settimeout(1)
for port in (7777, 7777, 9):
    udp.sendto(b"question", (host, port))
    try:
        udp.recv(10_000)
    except OSError:
        pass  # lost, or nobody listens
# A reset by the server, and one by the client: it closes with data that it has not read.
for port, text in ((82, b"reset me"), (80, b"GET /65536 HTTP/1.1\r\nHost: x\r\n\r\n")):
    with socket.create_connection((host, port), timeout=10) as tcp:
        tcp.sendall(text)
        try:
            tcp.recv(1)
        except OSError:
            pass
PYTHON
inside() {
    ip netns exec "$client" timeout 60 "$@" >/dev/null 2>&1 || true # losses are wanted
}
for host in 192.0.2.2 2001:db8::2; do
    inside ping -c 3 -i 0.1 "$host"
    inside ping -c 2 -i 0.1 -s 4000 "$host"
    url="http://$host"
    [ "$host" = 192.0.2.2 ] || url="http://[$host]"
    head -c 100000 /dev/zero >"$work/upload"
    inside curl -s "$url/0"
    inside curl -s "$url/8192" "$url/65536"
    inside curl -s --data-binary "@$work/upload" -H "Expect:" "$url/"
    inside curl -s --max-time 2 "$url:81/"
    inside python3 "$work/client.py" "$host"
done
inside curl -s --max-time 2 http://192.0.2.9/
sleep 0.5

kill "$link"
wait "$link" || true
mkdir -p "$(dirname "$file")"
gzip -9n <"$work/sample.pcap" >"$file"
echo "$file: $(stat -c %s "$file") bytes"
