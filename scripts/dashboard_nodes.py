"""Admin interfaces on unix sockets that repeat the answers of a real node under other numbers, for scripts/dashboard-test."""

import functools
import http.client
import http.server
import json
import socket
import socketserver
import threading
import time

PATHS = ["/v1/status", "/v1/stats", "/v1/cluster"]
PARTITIONS = 1024


def recorded(path):
    """The answers of a running node."""
    answers = {}
    for question in PATHS:
        connection = http.client.HTTPConnection("node", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("GET", question)
        answers[question] = json.loads(connection.getresponse().read())
    return answers


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    # A dashboard that gave up has closed the connection.
    handle_error = lambda self, request, address: None


class Replayed:
    """So many nodes in a folder. Of the last three, one never answers, one answers nonsense, and one has no process; the
    names of another contain markup."""

    complaints = {"hangs": "no answer within 1 s", "lies": "unexpected answer", "is gone": "connection refused"}
    markup = "<img src=x onerror=stolen=1>"

    def __init__(self, real, folder, count):
        self.answers, self.folder, self.count = recorded(real), folder, count
        self.hostile = dict(zip(self.complaints, range(count - 3, count)))
        self.began, self.servers, self.polls = time.monotonic(), [], 0

    def answer(self, node, question):
        """The recorded answer as that of another node of a larger cluster."""
        return self.counters(node) if question == "/v1/stats" else self.state(node, question)

    def counters(self, node):
        answer = json.loads(json.dumps(self.answers["/v1/stats"]))
        passed = time.monotonic() - self.began
        answer["uptime_s"] += passed
        answer["total"]["internet_in"] += int(1000 * node * passed)
        answer["total"]["dropped"][self.markup if node == 5 else "unknown_flow"] = int(passed)
        return json.dumps(answer).encode()

    @functools.cache
    def state(self, node, question):
        answer = json.loads(json.dumps(self.answers[question]))
        if question == "/v1/status":
            template, hostile = answer["fabric"][0], self.hostile.values()
            others = [number for number in range(self.count) if number != node]
            peers = [
                {**template, "node": number, "is_reached": number not in hostile, "via": None} for number in others
            ]
            answer.update(node=node, nodes=self.count, fabric=peers)
            if node == 5:
                answer["version"] = answer["ports"][0]["device"] = self.markup
        else:
            each = PARTITIONS // self.count
            owned = [list(range(number * each, (number + 1) * each)) for number in range(self.count)]
            member = answer["members"][0]
            members = [{**member, "node": number, "partitions": owned[number]} for number in range(self.count)]
            positions = [{"partition": number, "reached": 5, "settled": 4, "newest": 6} for number in range(PARTITIONS)]
            answer.update(node=node, nodes=self.count, members=members, positions=positions, unowned_partitions=[])
        return json.dumps(answer).encode()

    def handler(self, node):
        replayed = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def address_string(self):
                return "dashboard"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if node == replayed.hostile["hangs"]:
                    time.sleep(30)
                body = b'{"node": "</script><script>stolen=1</script>", "ports": 7}'
                if node != replayed.hostile["lies"]:
                    replayed.polls += 1
                    body = replayed.answer(node, self.path)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def __enter__(self):
        for node in range(self.count):
            server = Server(str(self.folder / f"node{node:02}.sock"), self.handler(node))
            if node == self.hostile["is gone"]:
                server.server_close()
                continue
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)
        return self

    def __exit__(self, *_):
        # The threads end with the process.
        self.servers.clear()
