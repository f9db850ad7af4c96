"""Runs `ullage check` on logs and metrics as a user would.

    ULLAGE=build/dev/ullage ULLAGE_SOURCE_DIR=. python3 tests/cli/test_check.py [-v] [Class.test]
"""

import gzip
import json
import os
import unittest

from test_cli import SOURCE, CliTest, ullage

LOGS = os.path.join(SOURCE, "tests", "data", "logs")
NEW = os.path.join(LOGS, "vllm-0.26.log")
OLD = os.path.join(LOGS, "vllm-0.19.log")
PLANNED = ["--model", "qwen3-30b-a3b", "--device", "h100"]
STEADY = ("INFO 11-30 12:00:00 [loggers.py:236] Engine 000: Avg prompt throughput: 512.3 tokens/s, Avg generation "
          "throughput: 1024.1 tokens/s, Running: 64 reqs, Waiting: 12 reqs, GPU KV cache usage: 98.5%, Prefix cache hit "
          "rate: 23.4%\n")


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


class CheckTest(CliTest):
    def check(self, *arguments, **more):
        return json.loads(self.succeeds("check", "--json", *arguments, **more))

    def write(self, name, content):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path


class StartUps(CheckTest):
    def test_a_log_alone_is_told(self):
        text = self.succeeds("check", NEW)
        for part in ("56.93 GiB", "13.84 GiB", "151,216", "1.15x", "--model"):
            self.assertIn(part, text)
        startup = self.check(NEW)["startup"]
        self.assertEqual((startup["engine"], startup["kv_tokens"], startup["concurrency_len"]), ("vLLM", 151216, 131072))

    def test_each_term_beside_the_plan(self):
        terms = {term["name"]: term for term in self.check(NEW, *PLANNED)["comparison"]["terms"]}
        self.assertFalse(terms["weights"]["is_off"])
        # From the logged memory the tokens are exact; the log knows that memory to 0.005 GiB.
        self.assertEqual(terms["tokens"]["tier"], "exact")
        self.assertFalse(terms["tokens"]["is_off"])
        self.assertFalse(terms["concurrency"]["is_off"])
        for term in terms.values():
            self.assertEqual(term["is_off"], abs(term["predicted"] - term["logged"]) > term["tolerance"], term)
            self.assertEqual(bool(term["cause"]), term["is_off"], term)

    def test_another_model_is_off(self):
        terms = {term["name"]: term for term in self.check(NEW, "--model", "qwen3-8b", "--device", "h100")["comparison"]["terms"]}
        self.assertTrue(terms["weights"]["is_off"])
        self.assertTrue(terms["tokens"]["is_off"])

    def test_rules_follow_the_wording_where_no_version_is_printed(self):
        """Before 0.20 a hybrid's tokens were counted, later derived from the concurrency: four times as many."""
        log = ("Available KV cache memory: 55.72 GiB\nGPU KV cache size: 729,696 tokens\n"
               "Maximum concurrency for 262,144 tokens per request: 10.85x\n")
        answer = self.check(self.write("hybrid.log", log), "--model", "Qwen3.5-35B-A3B", "--device", "h200")
        terms = {term["name"]: term for term in answer["comparison"]["terms"]}
        self.assertEqual(terms["tokens"]["predicted"], 729696)

    def test_how_lines_are_wrapped_does_not_matter(self):
        plain = self.check(NEW)["startup"]
        lines = lines_of(NEW)
        for name, changed in {
                "crlf": "\r\n".join(lines),
                "colours": "\n".join(f"\033[32m{line}\033[0m" for line in lines),
                "kubernetes": "\n".join(f"2026-11-30T12:00:00.123456789Z stdout F {line}" for line in lines),
                "compose": "\n".join(f"vllm-1  | {line}" for line in lines),
                "among others": "GET /health 200\n" + "\nnoise\n".join(lines) + "\nnoise",
        }.items():
            with self.subTest(name):
                self.assertEqual(self.check(self.write("wrapped.log", changed))["startup"], plain)
        with open(NEW, encoding="utf-8") as file:
            self.assertEqual(self.check("-", stdin=file)["startup"], plain)

    def test_the_last_of_several_starts_counts(self):
        both = "\n".join(lines_of(OLD) + lines_of(NEW))
        self.assertEqual(self.check(self.write("both.log", both))["startup"]["kv_tokens"], 151216)

    def test_a_log_that_is_cut_off(self):
        whole = "\n".join(lines_of(NEW))
        for size in range(0, len(whole), 97):
            done = ullage("check", self.write("cut.log", whole[:size]), *PLANNED)
            self.assertIn(done.returncode, (0, 1, 2), whole[:size])
            if done.returncode != 0:
                self.assertRegex(done.stderr.decode(), r"^error: .*cut\.log")

    def test_what_is_no_log(self):
        self.run_fails(["check", self.write("empty.log", "\n \n")], "empty.log", "is empty")
        self.run_fails(["check", self.write("other.log", "Server started on port 80\n")], "other.log", "Available KV cache")
        self.run_fails(["check", self.write("binary.log", bytes(range(256)) * 64)], "binary.log")
        with open(NEW, "rb") as file:
            self.run_fails(["check", self.write("z.log.gz", gzip.compress(file.read()))], "z.log.gz")
        self.run_fails(["check", self.folder], "regular file")
        self.run_fails(["check", self.path("none.log")], "none.log")


class Serving(CheckTest):
    def test_a_full_pool_and_what_would_help(self):
        path = self.write("steady.log", STEADY)
        self.assertEqual(self.check(path)["diagnosis"]["binding"], "pool full")
        found = self.check(path, "--model", "qwen3-8b", "--device", "h100")["diagnosis"]["findings"][0]
        self.assertIn("--kv-cache-dtype fp8", found["knob"])
        # The plan is asked about requests as long as those that run: it finds about as many as the log shows.
        before = int(found["gives"].split("requests run instead of ")[1].split(",")[0])
        self.assertLess(abs(before - 64), 7, found["gives"])

    def test_a_start_and_its_steady_state_in_one_file(self):
        answer = self.check(self.write("all.log", "\n".join(lines_of(NEW)) + "\n" + STEADY), *PLANNED)
        self.assertIn("comparison", answer)
        self.assertEqual(answer["diagnosis"]["binding"], "pool full")

    def test_metrics(self):
        for flags in ([os.path.join(LOGS, "steady.prom")], ["--metrics", os.path.join(LOGS, "steady.prom")]):
            self.assertTrue(self.check(*flags)["diagnosis"]["findings"])
        self.run_fails(["check", "--metrics", "http://127.0.0.1:9/metrics"], "127.0.0.1:9")
        self.run_fails(["check", "--metrics", self.write("none.prom", "# nothing\n")], "none.prom")


if __name__ == "__main__":
    unittest.main()
