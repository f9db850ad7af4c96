#!/usr/bin/env python3
"""What the KV cache saves: the same generation with and without it, beside what arithmetic predicts.

    bench/no_kv_cache.py --ullage build/release/ullage --model FILE.gguf [--tokens 512]

With the cache, a prompt of p tokens and n new ones compute p + n - 1 tokens. Without it, step i computes p + i tokens
again, in all n p + n (n - 1) / 2: the quotient is the ratio of tokens computed. Time grows less than that, because many
tokens in one step share the reading of the weights: --prefill-rate and --decode-rate (tokens/s, as bench_model_speed
prints) give the time that this predicts.
"""

import argparse
import subprocess
import sys
import time

from machine import describe_machine, spread

PROMPT = "Once upon a time there was a tank, and the room left in it decided everything."


def generate(args, extra):
    command = [args.ullage, "generate", args.model, PROMPT, "--max-tokens", str(args.tokens), "--temperature", "0",
               "--ignore-eos", *extra]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return seconds, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ullage", default="build/release/ullage")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=512, help="new tokens")
    parser.add_argument("--prompt-tokens", type=int, default=18, help="tokens of the built-in prompt, for the prediction")
    parser.add_argument("--prefill-rate", type=float, help="tokens/s of prefill, for the prediction in time")
    parser.add_argument("--decode-rate", type=float, help="tokens/s of decode, for the prediction in time")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()

    print(f"machine: {describe_machine()}")
    with_cache, without = [], []
    for _ in range(args.rounds):
        seconds, text = generate(args, [])
        with_cache.append(seconds)
        seconds, same_text = generate(args, ["--no-kv-cache"])
        without.append(seconds)
        if text != same_text:
            sys.exit("the texts differ: recomputing must give the same greedy tokens")
    p, n = args.prompt_tokens, args.tokens
    computed_with = p + n - 1
    computed_without = n * p + n * (n - 1) // 2
    print(f"with the cache     {spread(with_cache)} s, {computed_with} tokens computed")
    print(f"--no-kv-cache      {spread(without)} s, {computed_without} tokens computed")
    print(f"ratio of times     {min(without) / min(with_cache):.1f}")
    print(f"ratio of tokens    {computed_without / computed_with:.1f} (n^2 / 2 over n, and the prompt)")
    if args.prefill_rate and args.decode_rate:
        predicted = (computed_without / args.prefill_rate) / (p / args.prefill_rate + n / args.decode_rate)
        print(f"ratio predicted    {predicted:.1f} in time, at those rates")
    print("the texts are the same")


if __name__ == "__main__":
    main()
