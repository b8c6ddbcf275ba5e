"""What scripts/dashboard-test runs: a lab, the dashboard, a browser."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# Longest wait for something that the page is to show.
PATIENCE_S = 30


def missing(what):
    """Ends the test: it cannot run here."""
    print(f"missing: {what}")
    sys.exit(77)


class Lab:
    """A lab that is up, and the program that asks its nodes."""

    def __init__(self, program, name):
        self.program, self.name = program, name
        self.folder = Path("/run/scalebricks-lab") / name
        server = subprocess.run([Path(__file__).parent / "nats.sh", "path"], stdout=subprocess.PIPE, text=True)
        if server.returncode:
            missing("nats-server (see scripts/nats.sh)")
        self.up = "lab up --control --nodes 4 --phones 2 --quiet".split() + ["--nats-server", server.stdout.strip()]

    def __enter__(self):
        # On a busy machine a node can be unfit while the lab imports its flows.
        for attempt in range(3):
            self.down()
            command = [self.program, *self.up, "--name", self.name]
            if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
                return self
            print(f"attempt {attempt + 1}: the lab did not start")
        raise RuntimeError("the lab did not start")

    def down(self):
        subprocess.run([self.program, "lab", "down", "--name", self.name], check=True, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.down()

    def socket(self, node):
        return self.folder / f"node{node}.sock"

    def ask(self, node, *command):
        """An answer of the command line, as JSON."""
        out = subprocess.run(
            [self.program, *command, "--json", "--socket", self.socket(node)], check=True, stdout=subprocess.PIPE
        )
        return json.loads(out.stdout)

    def kill(self, node):
        pids = subprocess.run(
            ["ip", "netns", "pids", f"{self.name}-n{node}"], check=True, stdout=subprocess.PIPE, text=True
        )
        for pid in pids.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    @contextlib.contextmanager
    def traffic(self):
        """Pings of two phones, twenty a second each."""
        ping = ["ip", "netns", "exec", f"{self.name}-ue", "ping", "-q", "-i", "0.05", "192.0.2.1", "-I"]
        pings = [subprocess.Popen([*ping, f"10.45.0.{phone}"], stdout=subprocess.DEVNULL) for phone in (1, 2)]
        try:
            yield
        finally:
            for each in pings:
                each.kill()
                each.wait()


@contextlib.contextmanager
def dashboard(program, folder):
    """The dashboard over all sockets of a folder: the address that it prints. Ctrl-C must end it with status 0."""
    environment = {**os.environ, "SCALEBRICKS_RUNTIME_DIR": str(folder)}
    process = subprocess.Popen(
        [program, "dashboard", "--listen", "127.0.0.1:0", "--timeout", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0, "Ctrl-C did not end it cleanly"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def at_low_priority(playwright):
    """Playwright, whose browsers have a lower priority than the lab: a node whose worker makes no turn for half a second is unfit."""
    os.nice(10)
    try:
        driver = playwright.start()
    finally:
        os.nice(-10)
    try:
        yield driver
    finally:
        driver.stop()


class Browser:
    """A page, and everything that it requested and complained about."""

    def __init__(self, playwright, chromium):
        self.browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

    def open(self, address, **options):
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.complaints, page.requests = [], []
        page.on(
            "console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(address)
        return page

    def close(self):
        self.browser.close()
