"""Starts `ullage serve` on a free port for a test, and talks to it with nothing but the standard library."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

SERVER = os.environ.get("ULLAGE_SERVER", "build/release/ullage")
MODEL = os.environ.get("ULLAGE_TEST_MODEL", "data/stories260K.gguf")
# Sanitizers make everything slower; the environment says by how much tests should wait longer.
SLOWNESS = float(os.environ.get("ULLAGE_TEST_SLOWNESS", "1"))


class Server:
    """One server process. Use as a context manager; `port` and `address` are known inside."""

    def __init__(self, *arguments, model=MODEL, key=None):
        self.arguments = [str(a) for a in arguments]
        self.model = model
        self.key = key
        self.port = 0
        self.lines = []
        self._ready = threading.Event()

    def __enter__(self):
        command = [SERVER, "serve", self.model, "--port", "0", *self.arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(60 * SLOWNESS):
            self.process.kill()
            raise AssertionError("the server did not start:\n" + "".join(self.lines))
        if self.port == 0:
            raise AssertionError("the server ended at once:\n" + "".join(self.lines))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10 * SLOWNESS)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(10 * SLOWNESS)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    raise AssertionError("the server did not stop:\n" + "".join(self.lines)) from None
        self._reader.join(10)
        self.process.stdout.close()
        # A sanitizer's report shows here too: leaks are found at the very end.
        if self.process.returncode != 0:
            raise AssertionError(f"the server ended with status {self.process.returncode}:\n" + "".join(self.lines[-200:]))

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"^Serving .* on http://[^ ]*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                self._ready.set()
        self._ready.set()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout * SLOWNESS)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """(status, headers in lower case, body as bytes)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOWNESS)
        all_headers = dict(headers or {})
        if self.key and "authorization" not in {k.lower() for k in all_headers}:
            all_headers["Authorization"] = "Bearer " + self.key
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            all_headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body=body, headers=all_headers)
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        """(status, parsed JSON)."""
        status, _, text = self.request("POST", path, body, **more)
        return status, json.loads(text)

    def stream(self, path, body, **more):
        """The documents of a stream, checked for its form; "[DONE]" is not among them."""
        status, headers, text = self.request("POST", path, {**body, "stream": True}, **more)
        assert status == 200, text
        assert headers["content-type"].startswith("text/event-stream"), headers
        return parse_stream(text.decode())

    def metrics(self):
        """Samples by name with labels, as {name: {frozenset of labels: value}}."""
        status, _, text = self.get("/metrics")
        assert status == 200
        samples = {}
        for line in text.decode().splitlines():
            if not line or line.startswith("#"):
                continue
            found = re.match(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)', line)
            assert found, line
            labels = frozenset(re.findall(r'(\w+)="([^"]*)"', found.group(2) or ""))
            samples.setdefault(found.group(1), {})[labels] = float(found.group(3))
        return samples

    def metric(self, name, **labels):
        wanted = set(labels.items())
        values = [v for have, v in self.metrics().get(name, {}).items() if wanted <= have]
        assert len(values) == 1, (name, labels, values)
        return values[0]

    def wait_until_idle(self, seconds=30):
        """Until nothing runs and no block is in use, as /metrics tells it."""
        end = time.monotonic() + seconds * SLOWNESS
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "ullage_kv_blocks_used")
        while True:
            samples = self.metrics()
            values = {name: sum(samples[name].values()) for name in names}
            if not any(values.values()):
                return
            assert time.monotonic() < end, values
            time.sleep(0.02)

    def stop_signal(self):
        self.process.send_signal(signal.SIGTERM)


def parse_stream(text):
    assert "\r" not in text
    assert text.endswith("\n\n"), text[-80:]
    events = text[:-2].split("\n\n")
    assert events[-1] == "data: [DONE]", events[-1]
    documents = []
    for event in events[:-1]:
        assert event.startswith("data: ") and "\n" not in event, event
        documents.append(json.loads(event[len("data: "):]))
    return documents
