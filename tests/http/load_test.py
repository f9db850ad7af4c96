"""Many streaming clients at once, some of which hang up in the middle.

Asserts that no other request fails, that every block is free afterwards, that the server's memory stays flat, and that
/health answers quickly throughout. Starts its own server (or uses --port), needs only the standard library:

    python3 tests/http/load_test.py --clients 256 --seconds 60 --hang-ups 0.1
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import re
import sys
import time

from server_process import SLOWNESS, Server


class Failed(Exception):
    pass


async def stream_once(port, rng, arguments, counts):
    """One request on a connection of its own; hangs up after some chunks when the dice say so."""
    max_tokens = rng.randint(8, arguments.max_tokens)
    hang_up_after = rng.randint(0, max_tokens - 1) if rng.random() < arguments.hang_ups else None
    body = json.dumps({
        "prompt": arguments.prefix + rng.choice(["The dog", "A cat", "One day", "Lily"]) + " " * rng.randint(1, 3),
        "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": rng.choice([0, 1]),
        "seed": rng.randint(0, 1000)}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(body) + body)
        received = b""
        while True:
            data = await reader.read(65536)
            if not data:
                raise Failed(f"cut off after {len(received)} bytes: {received[-200:]!r}")
            received += data
            if not received.startswith(b"HTTP/1.1 200"):
                raise Failed(received[:300].decode(errors="replace"))
            chunks = received.count(b"\ndata: {") # each event begins a chunk's line
            if hang_up_after is not None and chunks >= hang_up_after:
                counts["hung_up"] += 1
                return
            if received.endswith(b"\r\n0\r\n\r\n"):
                break
        if b'"error"' in received:
            raise Failed(received[-300:].decode(errors="replace"))
        if not received.count(b"data: [DONE]") == 1:
            raise Failed("no [DONE]: " + received[-300:].decode(errors="replace"))
        if chunks != max_tokens:
            raise Failed(f"{chunks} chunks for {max_tokens} tokens")
        counts["complete"] += 1
        counts["tokens"] += chunks
    finally:
        writer.close()


async def client(port, seed, end, arguments, counts, failures):
    rng = random.Random(seed)
    while time.monotonic() < end:
        try:
            await stream_once(port, rng, arguments, counts)
        except (Failed, OSError, asyncio.IncompleteReadError) as error:
            failures.append(f"{type(error).__name__}: {error}")


def run_clients(port, first, count, end, arguments, queue):
    async def everything():
        counts = {"complete": 0, "hung_up": 0, "tokens": 0}
        failures = []
        await asyncio.gather(*(client(port, first + i, end, arguments, counts, failures) for i in range(count)))
        queue.put((counts, failures))

    asyncio.run(everything())


def probe_health(port, end, interval, queue):
    """Latencies of /health, one connection for all. In a process of its own: the clients' must not be measured."""
    import http.client
    latencies = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < end:
        begin = time.monotonic()
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        latencies.append(time.monotonic() - begin)
        if response.status != 200:
            queue.put((latencies, f"/health gave {response.status}"))
            return
        time.sleep(interval)
    queue.put((latencies, None))


def check(name, value, bound):
    fine = value <= bound
    print(f"{'ok  ' if fine else 'FAIL'} {name}: {value:g} (at most {bound:g})")
    return fine


def run(server, arguments):
    end = time.monotonic() + arguments.seconds
    queue, health_queue = multiprocessing.Queue(), multiprocessing.Queue()
    num_processes = min(arguments.processes, arguments.clients)
    share, rest = divmod(arguments.clients, num_processes)
    processes = []
    first = 0
    for i in range(num_processes):
        count = share + (i < rest)
        processes.append(multiprocessing.Process(target=run_clients,
                                                 args=(server.port, first, count, end, arguments, queue)))
        first += count
    processes.append(multiprocessing.Process(target=probe_health, args=(server.port, end, 0.02, health_queue)))
    for process in processes:
        process.start()
    resident = []
    most_running = 0
    begin = time.monotonic()
    while time.monotonic() < end:
        time.sleep(min(1.0, arguments.seconds / 10))
        samples = server.metrics()
        resident.append(sum(samples["process_resident_memory_bytes"].values()))
        most_running = max(most_running, sum(samples["vllm:num_requests_running"].values()) +
                           sum(samples["vllm:num_requests_waiting"].values()))
    totals = {"complete": 0, "hung_up": 0, "tokens": 0}
    failures = []
    for _ in range(num_processes):
        counts, failed = queue.get(timeout=300 * SLOWNESS)
        failures += failed
        for key, value in counts.items():
            totals[key] += value
    latencies, health_error = health_queue.get(timeout=60 * SLOWNESS)
    for process in processes:
        process.join()
    seconds = time.monotonic() - begin
    server.wait_until_idle(60)

    latencies.sort()
    p99 = latencies[min(len(latencies) - 1, int(len(latencies) * 0.99))]
    print(f"{arguments.clients} clients, {seconds:.1f} s: {totals['complete']} complete, {totals['hung_up']} hung up, "
          f"{len(failures)} failed; {totals['tokens'] / seconds:.0f} tokens/s; most live at once {most_running:.0f}; "
          f"/health p50 {latencies[len(latencies) // 2] * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, max "
          f"{latencies[-1] * 1e3:.1f} ms of {len(latencies)}")
    for failure in failures[:5]:
        print("  failed:", failure)
    good = check("failed requests", len(failures), 0)
    good &= check("complete requests, negated", -totals["complete"], -1)
    if arguments.hang_ups > 0 and arguments.seconds >= 5:
        good &= check("hung-up requests, negated", -totals["hung_up"], -1)
    if health_error:
        print("FAIL", health_error)
        good = False
    good &= check("/health p99, ms", p99 * 1e3, arguments.health_ms * SLOWNESS)
    # The first third warms up: buffers, the prefix cache, allocator arenas. A sanitizer's quarantine and shadow grow for
    # longer; AddressSanitizer's own leak check stands in there.
    if len(resident) >= 9 and SLOWNESS == 1:
        warm = max(resident[:len(resident) // 3])
        good &= check("resident memory at the end, MiB", resident[-1] / 2**20, warm / 2**20 * 1.05 + 16)
    good &= check("blocks in use afterwards", server.metric("ullage_kv_blocks_used"), 0)
    good &= check("live requests afterwards", json.loads(server.get("/load")[2])["server_load"], 0)
    return good


class Running:
    """A server that somebody else started."""

    def __init__(self, port):
        self.server = Server()
        self.server.port = port

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hang-ups", type=float, default=0.1, help="share of the requests, 0 to 1")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--prefix", default="Once upon a time, there was a little girl. ")
    parser.add_argument("--processes", type=int, default=2, help="client processes")
    parser.add_argument("--health-ms", type=float, default=50, help="bound of /health's p99")
    parser.add_argument("--port", type=int, help="of a server that runs already")
    parser.add_argument("server_arguments", nargs="*", help="after --: more flags for the server")
    arguments = parser.parse_args()
    with Running(arguments.port) if arguments.port else Server(*arguments.server_arguments) as server:
        good = run(server, arguments)
        if not good:
            print("".join(server.lines[-20:]))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
