#!/usr/bin/env python3
"""Prefill and batch-1 decode of Ullage and llama.cpp, in turn, in one run on this machine: prints the ratios.

    bench/compare_llama_cpp.py --llama-bench PATH --model FILE.gguf [--ullage build/bench/bench_model_speed]

Both read the same file with the same number of threads; llama.cpp keeps its default F16 KV cache and Ullage its default
BF16 (the same bytes). Rounds alternate, so that a change in the machine's load meets both; the ratio of a round is
Ullage's rate over llama.cpp's in that round. A ratio over 1 means that Ullage is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from machine import describe_machine, spread


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def run_llama(args):
    rows = run_json([args.llama_bench, "-m", args.model, "-t", str(args.threads), "-p", str(args.prompt),
                     "-n", str(args.generate), "-r", "1", "-o", "json"])
    prefill = next(r["avg_ts"] for r in rows if r["n_prompt"] > 0 and r["n_gen"] == 0)
    decode = next(r["avg_ts"] for r in rows if r["n_gen"] > 0 and r["n_prompt"] == 0)
    return prefill, decode, rows[0].get("build_commit", "unknown")


def run_ullage(args):
    row = run_json([args.ullage, "--model", args.model, "--threads", str(args.threads), "--prompt", str(args.prompt),
                    "--generate", str(args.generate), "--rounds", "1"])
    return row["prefill_tokens_per_s"]["median"], row["decode_tokens_per_s"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-bench", required=True, help="llama.cpp's llama-bench")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--ullage", default="build/bench/bench_model_speed", help="the program built from bench/model_speed.cc")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prefill")
    parser.add_argument("--generate", type=int, default=128, help="tokens of the decode")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    print(f"machine: {describe_machine()}; {args.threads} threads")
    rates = {"llama.cpp": {"prefill": [], "decode": []}, "ullage": {"prefill": [], "decode": []}}
    commit = ""
    for number in range(args.rounds):
        prefill, decode, commit = run_llama(args)
        rates["llama.cpp"]["prefill"].append(prefill)
        rates["llama.cpp"]["decode"].append(decode)
        prefill, decode = run_ullage(args)
        rates["ullage"]["prefill"].append(prefill)
        rates["ullage"]["decode"].append(decode)
        print(f"round {number + 1}: " + ", ".join(
            f"{phase} {rates['ullage'][phase][-1]:.1f} / {rates['llama.cpp'][phase][-1]:.1f}" for phase in ("prefill", "decode")),
            file=sys.stderr)
    print(f"llama.cpp {commit}; model {os.path.basename(args.model)}; prefill of {args.prompt}, decode of {args.generate} tokens")
    result = {}
    for phase in ("prefill", "decode"):
        ratios = [u / l for u, l in zip(rates["ullage"][phase], rates["llama.cpp"][phase])]
        result[phase] = statistics.median(ratios)
        print(f"{phase:8} tokens/s  llama.cpp {spread(rates['llama.cpp'][phase])}  ullage {spread(rates['ullage'][phase])}"
              f"  ratio {spread(ratios)}")
    print(json.dumps({"ratio": result, "rates": rates}))


if __name__ == "__main__":
    main()
