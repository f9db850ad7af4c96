"""What the operator asks of the server: flags, log lines, limits of queue and connections, signals."""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import time
import unittest

from server_process import MODEL, SERVER, SLOWNESS, Server
from test_connections import COMPLETION, Reader, request_bytes

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class FlagTest(unittest.TestCase):
    def test_other_servers_command_lines_are_taken(self):
        for flags in (("-c", 128, "-np", 4, "-b", 64, "-ub", 32, "-t", 1, "-ctk", "f16", "-ctv", "f16", "--metrics"),
                      ("--max-model-len", 128, "--dtype", "auto", "--gpu-memory-utilization", 0.2,
                       "--tensor-parallel-size", 1, "--kv-cache-memory-bytes", "8MiB", "--enable-prefix-caching")):
            with self.subTest(flags=flags), Server(*flags) as server:
                self.assertEqual(json.loads(server.get("/v1/models")[2])["data"][0]["max_model_len"], 128)


class PlanTest(unittest.TestCase):
    """A plan for this engine prints what the engine prints: the pool is sized by the same code."""

    def test_plan_and_serve_print_the_same_blocks(self):
        smollm2 = subprocess.run(["scripts/get_model.sh", "--cached"], cwd=SOURCE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
        for model in [MODEL] + ([smollm2] if smollm2 else []):
            for flags in (("--kv-cache-memory", "64MiB", "--max-model-len", 512),
                          ("--kv-cache-memory", "33MB", "--max-model-len", 300, "--block-size", 32),
                          ("--kv-cache-memory", "40MiB", "--max-model-len", 128, "--kv-cache-dtype", "f32"),
                          ("--num-gpu-blocks-override", 77, "--max-model-len", 256)):
                with self.subTest(model=model, flags=flags), Server(*flags, model=model) as server:
                    words = [SERVER, "plan", model, "--policy", "ullage", "--device", "epyc-9654", "--prompt", "64",
                             "--output", "32", "--json", *map(str, flags)]
                    plan = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
                    self.assertEqual(len(plan["log_lines"]), 2)
                    logged = [line.split(" info ", 1)[-1].rstrip() for line in server.lines]
                    for line in plan["log_lines"]:
                        self.assertIn(line, logged)


class LogTest(unittest.TestCase):
    def test_clients_cannot_write_log_lines(self):
        with Server("--log-requests") as server:
            self.assertEqual(server.get("/x%0d%0aerror%20fake%1b[31m%ff")[0], 404)
            server.post("/v1/completions", {**COMPLETION, "field\nerror fake\x1b": 1})
            server.get("/health")
            end = time.monotonic() + 10 * SLOWNESS
            while not any("/health" in line for line in server.lines):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual(sum("fake" in line for line in server.lines), 2, server.lines)
            self.assertFalse([line for line in server.lines if line.startswith("error") or "\x1b" in line])


class QueueTest(unittest.TestCase):
    def test_more_choices_than_the_queue_holds_never_fit(self):
        with Server("--max-num-seqs", 1, "--max-queue-len", 3) as server:
            status, answer = server.post("/v1/completions", {**COMPLETION, "n": 4})
            self.assertEqual(status, 400, answer)
            self.assertEqual(answer["error"]["param"], "n")
            self.assertIn("max_queue_len", answer["error"]["message"])
            self.assertEqual(server.post("/v1/completions", {**COMPLETION, "n": 3})[0], 200)

    def test_a_full_queue_is_429_with_retry_after(self):
        with Server("--max-num-seqs", 1, "--max-queue-len", 2) as server:
            body = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}
            socks = []
            statuses = []
            for _ in range(8):
                sock = server.connect()
                sock.sendall(request_bytes("POST", "/v1/completions", body))
                socks.append(sock)
            for sock in socks:
                head = Reader(sock).until(b"\r\n\r\n").decode()
                statuses.append(int(head.split(" ")[1]))
                if statuses[-1] == 429:
                    self.assertRegex(head.lower(), r"retry-after: \d+")
            self.assertIn(429, statuses)
            self.assertIn(200, statuses)
            for sock in socks:
                sock.close()
            server.wait_until_idle()

    def test_a_low_limit_of_open_files_is_raised(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < 1000:
            self.skipTest("the hard limit of open files is too low")
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            server = Server("--max-connections", 100).__enter__()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with contextlib.ExitStack() as stack:
            stack.push(server)
            socks = [stack.enter_context(server.connect()) for _ in range(100)]
            for sock in socks:
                sock.sendall(request_bytes("GET", "/version"))
                self.assertEqual(Reader(sock).response()[0], 200)

    def test_too_many_connections_are_told(self):
        with Server("--max-connections", 3) as server:
            open_socks = [server.connect() for _ in range(3)]
            try:
                end = time.monotonic() + 10 * SLOWNESS
                while True:
                    sock = server.connect()
                    sock.sendall(request_bytes("GET", "/version"))
                    status, headers, body = Reader(sock).response()
                    sock.close()
                    if status == 503:
                        break
                    self.assertLess(time.monotonic(), end)
                self.assertEqual(json.loads(body)["error"]["code"], "too_many_connections")
            finally:
                for sock in open_socks:
                    sock.close()


class DrainTest(unittest.TestCase):
    def test_sigterm_lets_live_requests_end(self):
        with Server("--drain-timeout", 300) as server:
            # Long enough to be live when the signal comes, whatever the machine.
            body = {"prompt": "Once", "max_tokens": 300, "ignore_eos": True, "n": 32, "stream": True}
            sock = server.connect()
            self.addCleanup(sock.close)
            sock.sendall(request_bytes("POST", "/v1/completions", body))
            reader = Reader(sock)
            reader.until(b"data: ")
            kept = server.connect()
            self.addCleanup(kept.close)
            server.stop_signal()
            end = time.monotonic() + 10 * SLOWNESS
            while not any("rain" in line for line in server.lines):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            kept.sendall(request_bytes("POST", "/v1/completions", COMPLETION))
            status, headers, answer = Reader(kept).response()
            self.assertEqual(status, 503, answer)
            while reader.more():
                pass
            text = reader.rest.decode()
            self.assertIn("data: [DONE]\n\n", text)
            self.assertEqual(len(re.findall(r'"finish_reason":"length"', text)), 32)
            self.assertEqual(server.process.wait(20 * SLOWNESS), 0)

    def test_a_second_signal_stops_at_once(self):
        with Server() as server:
            body = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "n": 128, "stream": True}
            sock = server.connect()
            self.addCleanup(sock.close)
            sock.sendall(request_bytes("POST", "/v1/completions", body))
            reader = Reader(sock)
            reader.until(b"data: ")
            server.stop_signal()
            end = time.monotonic() + 10 * SLOWNESS
            while not any("rain" in line for line in server.lines):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            server.stop_signal()
            while reader.more():
                pass
            self.assertEqual(server.process.wait(20 * SLOWNESS), 0)
            # Told that it was cut off, not just cut off.
            self.assertIn('"error"', reader.rest.decode())


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
