"""HTTP as bytes: keep-alive, pipelining, chunked bodies, limits, and everything a broken or hostile client sends."""

import json
import socket
import sys
import time
import unittest

from server_process import SLOWNESS, Server, parse_stream


def request_bytes(method, path, body=b"", *headers, version="1.1"):
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/{version}", "Host: test", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Reader:
    """Reads answers from a socket, one after the other."""

    def __init__(self, sock):
        self.sock = sock
        self.rest = b""

    def more(self):
        data = self.sock.recv(65536)
        self.rest += data
        return data

    def until(self, mark):
        while mark not in self.rest:
            if not self.more():
                raise EOFError(self.rest)
        head, self.rest = self.rest.split(mark, 1)
        return head

    def exactly(self, size):
        while len(self.rest) < size:
            if not self.more():
                raise EOFError(self.rest)
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def response(self):
        """(status, headers, body)."""
        head = self.until(b"\r\n\r\n").decode().split("\r\n")
        status = int(head[0].split(" ")[1])
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:])}
        if status == 100:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.until(b"\r\n"), 16):
                body += self.exactly(size)
                assert self.exactly(2) == b"\r\n"
            assert self.exactly(2) == b"\r\n"
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            while self.more():
                pass
            body, self.rest = self.rest, b""
        return status, headers, body

    def at_end(self):
        return self.rest == b"" and self.more() == b""


COMPLETION = {"prompt": "Once", "max_tokens": 3, "temperature": 0, "ignore_eos": True}


class ConnectionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body-size", "64KiB", "--max-header-size", "4KiB", "--header-timeout", 0.6,
                            "--body-timeout", 1.0, "--idle-timeout", 1.0)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def open(self):
        sock = self.server.connect()
        self.addCleanup(sock.close)
        return sock, Reader(sock)

    def exchange(self, data):
        sock, reader = self.open()
        sock.sendall(data)
        return reader.response(), reader

    def refused(self, data, status):
        (got, headers, body), reader = self.exchange(data)
        self.assertEqual(got, status, body)
        self.assertIn("message", json.loads(body)["error"])
        self.assertEqual(headers["connection"], "close")
        self.assertTrue(reader.at_end())
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_keep_alive_and_pipelining(self):
        sock, reader = self.open()
        sock.sendall(request_bytes("GET", "/version"))
        self.assertEqual(reader.response()[0], 200)
        sock.sendall(request_bytes("GET", "/version") + request_bytes("POST", "/v1/completions", COMPLETION) +
                     request_bytes("POST", "/v1/completions", {**COMPLETION, "stream": True}) +
                     request_bytes("GET", "/nothing") + request_bytes("GET", "/v1/models"))
        answers = [reader.response() for _ in range(5)]
        self.assertEqual([a[0] for a in answers], [200, 200, 200, 404, 200])
        self.assertEqual(json.loads(answers[1][2])["usage"]["completion_tokens"], 3)
        self.assertEqual(len(parse_stream(answers[2][2].decode())), 3)
        self.assertEqual(json.loads(answers[4][2])["object"], "list")

    def test_one_byte_at_a_time(self):
        sock, reader = self.open()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request_bytes("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}):
            sock.sendall(bytes([byte]))
        self.assertEqual(reader.response()[0], 200)

    def test_chunked_request_body(self):
        body = json.dumps(COMPLETION).encode()
        data = request_bytes("POST", "/v1/completions", b"", "Transfer-Encoding: chunked")
        for i in range(0, len(body), 7):
            part = body[i:i + 7]
            data += f"{len(part):x};note=1\r\n".encode() + part + b"\r\n"
        (status, _, answer), _ = self.exchange(data + b"0\r\n\r\n")
        self.assertEqual((status, json.loads(answer)["usage"]["completion_tokens"]), (200, 3))

    def test_expect_100_continue(self):
        sock, reader = self.open()
        body = json.dumps(COMPLETION).encode()
        head = request_bytes("POST", "/v1/completions", b"", "Expect: 100-continue", f"Content-Length: {len(body)}")
        sock.sendall(head)
        self.assertEqual(reader.response()[0], 100)
        sock.sendall(body)
        self.assertEqual(reader.response()[0], 200)

    def test_http_1_0(self):
        (status, headers, _), reader = self.exchange(request_bytes("GET", "/version", version="1.0"))
        self.assertEqual((status, headers["connection"]), (200, "close"))
        self.assertTrue(reader.at_end())
        data = request_bytes("POST", "/v1/completions", {**COMPLETION, "stream": True}, version="1.0")
        (status, headers, body), _ = self.exchange(data)
        self.assertNotIn("transfer-encoding", headers)
        self.assertEqual(len(parse_stream(body.decode())), 3)
        (status, headers, _), reader = self.exchange(
            request_bytes("GET", "/version", b"", "Connection: keep-alive", version="1.0"))
        self.assertEqual(headers["connection"], "keep-alive")

    def test_connection_close_is_honoured(self):
        _, reader = self.exchange(request_bytes("GET", "/version", b"", "Connection: close"))
        self.assertTrue(reader.at_end())

    def test_malformed_requests(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n", b"GET\r\n\r\n", b"nonsense here\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost test\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with self.subTest(data=data):
                self.refused(data, 400)
        # Two lengths that disagree let two servers see different requests.
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400)
        self.refused(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)

    def test_limits(self):
        self.refused(request_bytes("GET", "/version", b"", "X-Long: " + "a" * 5000), 431)
        self.refused(request_bytes("GET", "/" + "a" * 5000), 431)
        self.refused(request_bytes("POST", "/v1/completions", b"", "Content-Length: 70000"), 413)
        self.refused(request_bytes("POST", "/v1/completions", b"a" * 70000), 413)
        self.refused(request_bytes("POST", "/v1/completions", b"", "Transfer-Encoding: chunked") +
                     b"11170\r\n" + b"a" * 70000 + b"\r\n0\r\n\r\n", 413)

    def test_slow_headers_and_idle_connections_are_closed(self):
        sock, reader = self.open()
        sock.sendall(b"GET /version HTTP/1.1\r\nHost:")
        begin = time.monotonic()
        self.assertEqual(reader.response()[0], 408)
        self.assertTrue(reader.at_end())
        self.assertLess(time.monotonic() - begin, 5 * SLOWNESS)
        silent, reader = self.open()
        self.assertTrue(reader.at_end())
        sock, reader = self.open()
        sock.sendall(request_bytes("GET", "/version"))
        self.assertEqual(reader.response()[0], 200)
        begin = time.monotonic()
        self.assertTrue(reader.at_end())
        self.assertGreater(time.monotonic() - begin, 0.5)

    def test_a_body_that_trickles_is_ended(self):
        sock, reader = self.open()
        sock.sendall(request_bytes("POST", "/v1/completions", b"", "Content-Length: 50000"))
        sock.settimeout(0.1)
        end = time.monotonic() + 20 * SLOWNESS
        while not reader.rest:
            self.assertLess(time.monotonic(), end)
            sock.sendall(b" ")
            try:
                reader.more()
            except socket.timeout:
                pass
        sock.settimeout(30 * SLOWNESS)
        self.assertEqual(reader.response()[0], 408)
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_other_transfer_codings_are_refused(self):
        for codings in (("gzip",), ("gzip, chunked",), ("chunked, chunked",), ("chunked", "chunked")):
            with self.subTest(codings=codings):
                headers = ["Transfer-Encoding: " + coding for coding in codings]
                # What follows must not be taken for a request of its own.
                data = request_bytes("POST", "/v1/completions", b"", *headers) + request_bytes("GET", "/version")
                sock, reader = self.open()
                sock.sendall(data)
                status, headers, body = reader.response()
                self.assertIn(status, (400, 501), body)
                self.assertEqual(headers["connection"], "close")
                self.assertTrue(reader.at_end())
        self.refused(request_bytes("POST", "/v1/completions", b"", "Transfer-Encoding: chunked", version="1.0"), 400)

    def test_a_half_request_is_forgotten(self):
        sock, _ = self.open()
        sock.sendall(request_bytes("POST", "/v1/completions", b"", "Content-Length: 500") + b"{\"prompt\"")
        sock.close()
        self.assertEqual(self.server.get("/health")[0], 200)


class HangUpTest(unittest.TestCase):
    """A client that leaves is cancelled, and its blocks are free again."""

    LONG = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True}

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def aborted(self):
        return self.server.metric("vllm:request_success_total", finished_reason="abort")

    def check_gone(self, before, count=1):
        self.server.wait_until_idle()
        self.assertGreaterEqual(self.aborted(), before + count)
        self.assertEqual(self.server.get("/health")[0], 200)
        self.assertEqual(json.loads(self.server.get("/load")[2]), {"server_load": 0})

    def start(self, body):
        sock = self.server.connect()
        self.addCleanup(sock.close)
        sock.sendall(request_bytes("POST", "/v1/completions", body))
        return sock

    def wait_running(self, count):
        end = time.monotonic() + 20 * SLOWNESS
        while self.server.metric("vllm:num_requests_running") < count:
            self.assertLess(time.monotonic(), end)

    # n long choices keep the engine busy for as long as the test needs.
    def test_leaving_a_stream(self):
        before = self.aborted()
        sock = self.start({**self.LONG, "stream": True, "n": 64})
        reader = Reader(sock)
        reader.until(b"data: ")
        sock.close()
        self.check_gone(before, 8)

    def test_leaving_before_the_answer(self):
        before = self.aborted()
        sock = self.start({**self.LONG, "n": 64})
        self.wait_running(8)
        sock.close()
        self.check_gone(before, 8)

    def test_a_half_closed_socket_has_left(self):
        before = self.aborted()
        sock = self.start({**self.LONG, "n": 64})
        self.wait_running(8)
        sock.shutdown(socket.SHUT_WR)
        self.check_gone(before, 8)

    def test_leaving_behind_more_requests_than_are_read_ahead(self):
        before = self.aborted()
        sock = self.start({**self.LONG, "n": 64})
        sock.sendall(request_bytes("GET", "/version") * 2500)
        self.wait_running(8)
        sock.close()
        self.check_gone(before, 8)

    def test_a_reset_has_left(self):
        before = self.aborted()
        sock = self.start({**self.LONG, "n": 64, "stream": True})
        self.wait_running(8)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
        self.check_gone(before, 8)


class SlowReaderTest(unittest.TestCase):
    def test_who_does_not_read_is_dropped(self):
        with Server("--write-timeout", 0.5) as server, socket.socket() as sock:
            before = server.metric("vllm:request_success_total", finished_reason="abort")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            sock.connect(("127.0.0.1", server.port))
            body = {"prompt": "Once", "max_tokens": 400, "ignore_eos": True, "n": 64, "stream": True, "logprobs": 20,
                    "stream_options": {"continuous_usage_stats": True}}
            sock.sendall(request_bytes("POST", "/v1/completions", body))
            end = time.monotonic() + 60 * SLOWNESS
            while server.metric("vllm:request_success_total", finished_reason="abort") == before:
                self.assertLess(time.monotonic(), end)
            server.wait_until_idle(60)
            self.assertEqual(server.get("/health")[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
