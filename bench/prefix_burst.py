#!/usr/bin/env python3
"""Clients that arrive together with a long common prefix: is it computed once?

    build/release/ullage serve MODEL --port 8000 &
    bench/prefix_burst.py --url http://127.0.0.1:8000 [--clients 8] [--shared 1000] [--own 24] [--generate 32]

First one client alone, cold, for scale; then, with another prefix, all clients at once. Prompts are token ids. Prints
cached_tokens of each, the prompt tokens computed over one prompt's, times to first token, and the wall time.
Only Python's standard library is used.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import threading
import time
import urllib.parse

from machine import describe_machine


def request(url, model, prompt, generate, barrier, results, index):
    """Streams one completion; results[index] = (seconds to first token, seconds to last, usage)."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
    connection.connect()
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": generate, "temperature": 0, "ignore_eos": True,
                       "stream": True, "stream_options": {"include_usage": True}})
    barrier.wait()
    start = time.monotonic()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        results[index] = f"status {response.status}: {response.read(500).decode(errors='replace')}"
        barrier.abort()
        return
    first, usage = None, None
    for line in response:
        line = line.strip()
        if not line.startswith(b"data: ") or line == b"data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        if chunk.get("choices") and first is None:
            first = time.monotonic() - start
        usage = chunk.get("usage") or usage
    results[index] = (first, time.monotonic() - start, usage)


def run_together(args, model, prompts):
    results = [None] * len(prompts)
    barrier = threading.Barrier(len(prompts))
    threads = [threading.Thread(target=request, args=(args.url, model, p, args.generate, barrier, results, i))
               for i, p in enumerate(prompts)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if not isinstance(result, tuple):
            sys.exit(f"a request failed: {result}")
    return results, time.monotonic() - start


def cached(usage):
    return (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--shared", type=int, default=1000, help="tokens of the common prefix")
    parser.add_argument("--own", type=int, default=24, help="tokens of each client's own")
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=256, help="token ids are drawn below this")
    parser.add_argument("--seed", type=int, default=None, help="of the tokens; another each run unless given, so that the cache is cold")
    args = parser.parse_args()

    draw = random.Random(args.seed if args.seed is not None else time.time_ns())

    def tokens(count):
        return [draw.randrange(3, args.vocab) for _ in range(count)]

    parts = urllib.parse.urlsplit(args.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("GET", "/v1/models")
    model = json.loads(connection.getresponse().read())["data"][0]["id"]

    alone, _ = run_together(args, model, [tokens(args.shared + args.own)])
    prefix = tokens(args.shared)
    burst, wall = run_together(args, model, [prefix + tokens(args.own) for _ in range(args.clients)])

    length = args.shared + args.own
    computed = sum(usage["prompt_tokens"] - cached(usage) for _, _, usage in burst)
    first_tokens = [first for first, _, _ in burst]
    print(f"machine: {describe_machine()}; model {model}")
    print(f"one client alone   TTFT {alone[0][0]:.2f} s, done in {alone[0][1]:.2f} s")
    print(f"{args.clients} clients at once  TTFT median {statistics.median(first_tokens):.2f} s, most {max(first_tokens):.2f} s, "
          f"all done in {wall:.2f} s")
    print(f"cached_tokens      {sorted(cached(usage) for _, _, usage in burst)}")
    print(f"prompt tokens      {computed} computed of {args.clients * length}: {computed / length:.2f} times one prompt's "
          f"(1 + {args.clients - 1} x own / prompt = {1 + (args.clients - 1) * args.own / length:.2f} at best)")
    print(json.dumps({"computed_over_one_prompt": computed / length, "ttft_alone_s": alone[0][0],
                      "ttft_median_s": statistics.median(first_tokens), "wall_s": wall}))


if __name__ == "__main__":
    main()
