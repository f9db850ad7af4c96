"""Runs `ullage plan` and `ullage explain` as a user would.

    ULLAGE=build/dev/ullage ULLAGE_SOURCE_DIR=. python3 tests/cli/test_plan.py [-v] [Class.test]
"""

import csv
import io
import json
import os
import re
import signal
import subprocess
import unittest

from test_cli import ENVIRONMENT, HF_MODELS, SLOWNESS, SOURCE, STORIES, ULLAGE, CliTest, ullage

FORTY = ["--layers", "40", "--kv-heads", "8", "--head-dim", "128", "--hidden", "5120"]
TINY = os.path.join(HF_MODELS, "qwen3-tied", "config.json")


class PlanTest(CliTest):
    def plan(self, *arguments, **more):
        return json.loads(self.succeeds("plan", "--json", *arguments, **more))


class Models(PlanTest):
    def test_a_model_by_its_numbers(self):
        answer = self.plan(*FORTY, "--device", "h100", "--kv-memory", "30GiB")
        self.assertEqual(answer["capacity"]["request"]["bytes_per_token"], 163840)
        self.assertEqual(answer["capacity"]["num_blocks"], 12288)

    def test_a_file_a_folder_and_standard_input_are_one(self):
        flags = ["--device", "h100", "--kv-memory", "1GiB"]
        config = self.path("model", "config.json")
        os.mkdir(self.path("model"))
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                       "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000}, file)
        answers = [self.plan(config, *flags), self.plan(self.path("model"), *flags)]
        with open(config, encoding="utf-8") as file:
            answers.append(self.plan("-", *flags, stdin=file))
        for answer in answers:
            self.assertEqual(answer["capacity"], answers[0]["capacity"])
        self.assertEqual(answers[0]["capacity"]["request"]["bytes_per_token"], 2 * 2 * 64 * 2 * 2)

    def test_a_gguf_file(self):
        answer = self.plan(STORIES, "--device", "h100", "--kv-memory", "1MiB", "--prompt", "64", "--output", "64")
        self.assertEqual(answer["asked"]["model"]["source"], "GGUF")
        self.assertEqual(answer["asked"]["model"]["num_layers"], 5)

    def test_what_is_no_model(self):
        self.run_fails(["plan", self.path("nothing.json"), "--device", "h100"], "nothing.json")
        self.usage_fails(["plan", "--device", "h100"], "MODEL", "--layers 40")
        self.usage_fails(["plan", "a", "b"], "MODEL", '"a"', '"b"')
        self.usage_fails(["plan", "--layers", "40", "--kv-heads", "8"], "--head-dim", "missing")
        with open(self.path("bad.json"), "w", encoding="utf-8") as file:
            file.write("{")
        self.run_fails(["plan", self.path("bad.json")], "bad.json")


class Flags(PlanTest):
    def test_values_out_of_range(self):
        for flag, values in {
            "--max-model-len": ["", "0", "-1", "1.5", "8q", "99999999999999999999"],
            "--kv-memory": ["", "0", "5Q", "nan"],
            "--gpu-memory-utilization": ["0", "1.5", "nan", "0.9GB", "0.9GiB"],
            "--ttft": ["500", "0s", "5parsecs"],
            "--bandwidth": ["3.35", "0TB/s"],
            "--flops": ["989", "bf17=1T"],
            "--tp": ["0", "x"],
            "--price": ["cheap", "-1"],
            "--kv": ["nosuch"],
            "--weights": ["nosuch"],
            "--device": ["nosuch", "h1oo"],
            "--policy": ["nosuch"],
        }.items():
            for value in values:
                self.usage_fails(["plan", *FORTY, f"{flag}={value}"] if value else ["plan", *FORTY, flag, ""])

    def test_sizes_and_shares_are_told_apart(self):
        decimal = self.usage_fails(["plan", *FORTY, "--gpu-memory-utilization", "0.9GB"])
        binary = self.usage_fails(["plan", *FORTY, "--gpu-memory-utilization", "0.9GiB"])
        self.assertIn("900,000,000 bytes", decimal)
        self.assertIn("966,367,641 bytes", binary)
        answer = self.plan(*FORTY, "--device", "h100", "--kv-memory", "30GB")
        self.assertIn("30,000,000,000 bytes", " ".join(answer["notes"]))

    def test_an_unknown_flag_is_named_with_the_nearest_known(self):
        self.usage_fails(["plan", *FORTY, "--max-model-length", "1k"], "no flag --max-model-length;", "--max-model-len")
        self.usage_fails(["plan", *FORTY, "--kv-cache-dtyp", "fp8"], "--kv-cache-dtype")

    def test_short_names(self):
        one = self.plan(*FORTY, "--device", "h100", "-tp", "2", "--kv-memory", "1GiB")
        self.assertEqual(one["asked"]["parallelism"]["tensor"], 2)

    def test_help_names_every_group(self):
        text = self.succeeds("plan", "--help")
        self.assertEqual(text, self.succeeds("help", "plan"))
        for part in ("Device:", "Memory:", "Engine:", "Requests:", "Targets", "Speed:", "Output:", "Examples:"):
            self.assertIn(part, text)

    def test_the_page_about_plan_knows_the_same_flags(self):
        known = set(re.findall(r"--[a-z][a-z0-9-]*", self.succeeds("plan", "--help")))
        with open(os.path.join(SOURCE, "docs", "plan.md"), encoding="utf-8") as file:
            page = file.read()
        table = page[page.index("## Every lever"):]
        documented = set(re.findall(r"`(--[a-z][a-z0-9-]*)", table))
        self.assertEqual(documented - known, set())
        main = {line.split(",")[0].split(" ")[0]
                for line in re.findall(r"(?m)^  (?:-\w,)?(--[a-z][^ \n]*)", self.succeeds("plan", "--help"))}
        self.assertEqual(main - documented - {"--help"}, set())


class Answers(PlanTest):
    def test_text_begins_with_the_verdict(self):
        flags = [*FORTY, "--device", "h100"]
        text = self.succeeds("plan", *flags)
        self.assertTrue(text.startswith(self.plan(*flags)["verdict"]), text)
        self.assertTrue(text.isascii())

    def test_what_does_not_fit_is_an_answer(self):
        flags = ["--layers", "200", "--kv-heads", "8", "--head-dim", "128", "--hidden", "16384", "--device", "t4"]
        answer = self.plan(*flags)
        self.assertEqual(answer["fit"], "weights_too_large")
        self.assertGreater(answer["short_by_bytes"], 0)
        done = ullage("plan", *flags, "--exit-status")
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_targets(self):
        flags = [*FORTY, "--device", "h100", "--prompt", "1k", "--output", "256"]
        met = self.plan(*flags, "--users", "1")
        self.assertTrue(met["targets"]["is_met"])
        missed = self.plan(*flags, "--users", "100000")
        self.assertFalse(missed["targets"]["is_met"])
        self.assertEqual(ullage("plan", *flags, "--users", "100000", "--exit-status").returncode, 3)
        self.assertEqual(ullage("plan", *flags, "--users", "1", "--exit-status").returncode, 0)

    def test_the_derivation_has_the_figures_of_the_answer(self):
        text = self.succeeds("plan", *FORTY, "--device", "h100", "--kv-memory", "30GiB", "--explain")
        self.assertIn("How each figure comes about", text)
        self.assertIn("N = 12,288", text)

    def test_a_document_is_the_same_as_flags(self):
        with open(self.path("plan.json"), "w", encoding="utf-8") as file:
            json.dump({"model": {"layers": 40, "kv_heads": 8, "head_dim": 128, "hidden": 5120}, "device": "h100",
                       "kv_memory": "30GiB"}, file)
        self.assertEqual(self.plan("--scenario", self.path("plan.json"))["capacity"],
                         self.plan(*FORTY, "--device", "h100", "--kv-memory", "30GiB")["capacity"])

    def test_a_link_is_the_same_as_flags(self):
        flags = ["--device", "h100", "--prompt", "4k", "--kv", "fp8", "--force-mha", "--price", "2.5"]
        config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000,
                  "max_position_embeddings": 8192}
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        for model in ("qwen3-8b", self.path("config.json")):
            link = self.succeeds("plan", model, *flags, "--link").strip()
            self.assertRegex(link, r"^#v1;[!-~]+$")
            for spelling in (link, "https://example.org/lab/" + link):
                self.assertEqual(self.plan(spelling)["capacity"], self.plan(model, *flags)["capacity"])
            self.assertEqual(self.plan(link, "--kv", "bf16")["asked"]["settings"]["kv_cache_dtype"], "bf16")
        self.assertIn('"hue"', self.succeeds("plan", "#v1;model=qwen3-8b;hue=1"))
        self.usage_fails(["plan", "#v2;model=qwen3-8b"], "v1")
        self.usage_fails(["plan", "#v1;model=%zz"], "MODEL")
        self.usage_fails(["plan", STORIES, "--link"], "catalogue")

    def test_the_same_question_gives_the_same_bytes(self):
        flags = ["plan", *FORTY, "--device", "h100", "--users", "50", "--explain", "--json"]
        self.assertEqual(self.succeeds(*flags), self.succeeds(*flags))

    def test_it_is_quick(self):
        times = []
        for _ in range(7):
            child = subprocess.Popen([ULLAGE, "plan", *FORTY, "--device", "h100"], env=ENVIRONMENT,
                                     stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(child.returncode, 0)
            times.append(usage.ru_utime + usage.ru_stime)  # other processes' load is not ours
        self.assertLess(min(times), 0.030 * SLOWNESS)


class ServerLines(PlanTest):
    LINE = ["vllm", "serve", TINY, "--max-model-len", "4096", "--kv-cache-memory-bytes", "1073741824"]

    def test_a_pasted_line_in_words_or_in_one(self):
        flags = ["--device", "h100"]
        words = self.plan(*flags, "--", *self.LINE)
        self.assertEqual(words["asked"]["settings"]["max_model_len"], 4096)
        self.assertEqual(words["capacity"], self.plan(*flags, "--line", " ".join(self.LINE))["capacity"])
        self.assertEqual(words["capacity"], self.plan(" ".join(self.LINE), *flags)["capacity"])

    def test_flags_before_it_hold(self):
        answer = self.plan("--device", "h100", "--max-model-len", "2k", "--", *self.LINE)
        self.assertEqual(answer["asked"]["settings"]["max_model_len"], 2000)

    def test_what_is_wrong_in_it(self):
        self.usage_fails(["plan", "--line", "vllm serve m --max-model-len"], "--line: --max-model-len", "no value")
        self.usage_fails(["plan", "--line", "vllm serve 'm"], "--line", "quote")

    def test_printed_lines(self):
        flags = [TINY, "--tp", "1", "--max-model-len", "4k", "--max-num-seqs", "4"]
        vllm = self.succeeds("plan", *flags, "--print-line", "vllm")
        self.assertTrue(vllm.startswith(f"vllm serve {TINY} "), vllm)
        self.assertIn("--max-model-len 4000", vllm)
        self.assertIn("-c 16000 -np 4", self.succeeds("plan", *flags, "--print-line", "llama-server"))
        self.assertIn("--context-length 4000", self.succeeds("plan", *flags, "--print-line", "sglang"))
        self.assertIn("ullage serve", self.succeeds("plan", *flags, "--print-line", "ullage"))
        self.usage_fails(["plan", *flags, "--print-line", "triton"], "--print-line", "triton")


class Sweeps(PlanTest):
    FLAGS = [*FORTY, "--device", "h100", "--kv-memory", "30GiB"]

    def test_csv(self):
        text = self.succeeds("plan", *self.FLAGS, "--csv", "--sweep", "kv=bf16,fp8", "prompt=1k..8k")
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(len(rows), 8)
        self.assertEqual([row["prompt"] for row in rows[:4]], ["1000", "2000", "4000", "8000"])
        self.assertEqual(int(rows[4]["num_blocks"]), 2 * int(rows[0]["num_blocks"]))
        for row in rows:
            self.assertEqual(row["error"], "")

    def test_json_lines_and_text(self):
        lines = self.succeeds("plan", *self.FLAGS, "--json", "--sweep", "tp=1,3").splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIsNone(json.loads(lines[0])["error"])
        self.assertTrue(json.loads(lines[1])["error"])
        self.assertIn("kv_cache_dtype", self.succeeds("plan", *self.FLAGS, "--sweep", "kv=bf16,fp8"))

    def test_the_model_may_come_last_and_be_swept(self):
        text = self.succeeds("plan", "--device", "h100", "--csv", "--sweep", "kv=bf16,fp8", TINY)
        self.assertEqual(len(text.splitlines()), 3)
        text = self.succeeds("plan", "--device", "h100", "--csv", "--sweep", f"model={TINY},{self.path('no')}")
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual(rows[0]["error"], "")
        self.assertNotEqual(rows[1]["error"], "")

    def test_bad_sweeps(self):
        for axis in ("kv", "nosuch=1", "prompt=8k..1k", "prompt=1..9:0", "kv_memory=1..x"):
            self.usage_fails(["plan", *self.FLAGS, "--csv", "--sweep", axis, "prompt=1k,2k"], "--sweep")
        self.usage_fails(["plan", *self.FLAGS, "--csv", "--sweep", "prompt=1..2000:1", "output=1..2000:1"], "1,000,000")
        self.usage_fails(["plan", *self.FLAGS, "--sweep", "prompt=1..5000:1"], "--csv")
        self.usage_fails(["plan", *self.FLAGS, "--csv"], "--sweep")

    def test_an_interrupt_keeps_what_there_is(self):
        process = subprocess.Popen([ULLAGE, "plan", *self.FLAGS, "--csv", "--sweep", "prompt=1..1000:1",
                                    "output=1..1000:1"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=60 * SLOWNESS)
        self.assertTrue(first.startswith(b"prompt,output,"))
        self.assertEqual(process.returncode, 130, error)
        self.assertRegex(error, rb"interrupted after [\d,]+ of 1,000,000")
        rows = rest.splitlines()
        self.assertGreater(len(rows), 0)
        self.assertEqual(rows[-1].count(b","), first.count(b","))


class Explain(PlanTest):
    def test_b_may_say_only_what_changes(self):
        a = " ".join(FORTY)
        answer = json.loads(self.succeeds("explain", a, "--kv fp8", "--device", "h100", "--json"))
        self.assertEqual(sum(term["tokens"] for term in answer["terms"]),
                         answer["after"]["usable_tokens"] - answer["before"]["usable_tokens"])
        self.assertGreater(answer["after"]["usable_tokens"], answer["before"]["usable_tokens"])
        text = self.succeeds("explain", a, "--kv fp8", "--device", "h100")
        self.assertTrue(text.startswith(answer["sentence"][:20]), text)

    def test_bad_input(self):
        self.usage_fails(["explain"], "two plans")
        self.usage_fails(["explain", "m"], "two plans")
        self.usage_fails(["explain", " ".join(FORTY), "--nosuch 1"], "B: --nosuch")
        self.usage_fails(["explain", " ".join(FORTY) + " --kv", "--kv fp8"], "A: --kv", "no value")


if __name__ == "__main__":
    unittest.main()
