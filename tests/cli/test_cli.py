"""Runs `ullage` as a user would: exit codes, what is said and where, --json, --help, signals and broken outputs.

    ULLAGE=build/dev/ullage ULLAGE_SOURCE_DIR=. python3 tests/cli/test_cli.py [-v] [Class.test]
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

SOURCE = os.path.abspath(os.environ.get("ULLAGE_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", "..")))
ULLAGE = os.path.abspath(os.environ.get("ULLAGE", os.path.join(SOURCE, "build", "release", "ullage")))
SLOWNESS = float(os.environ.get("ULLAGE_TEST_SLOWNESS", "1"))
STORIES = os.path.join(SOURCE, "data", "stories260K.gguf")
HF_MODELS = os.path.join(SOURCE, "tests", "data", "models", "hf")
ENVIRONMENT = {**os.environ, "ULLAGE_DATA_DIR": os.path.join(SOURCE, "data"), "HF_HOME": "/nonexistent"}
ENVIRONMENT.pop("ULLAGE_API_KEY", None)
for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
    ENVIRONMENT.pop(name, None)


def ullage(*arguments, env=None, **more):
    """The finished process, its output as bytes."""
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([ULLAGE, *arguments], env={**ENVIRONMENT, **(env or {})}, timeout=60 * SLOWNESS, **more)


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ullage-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def copy_of(self, model):
        """A Hugging Face directory that the test may change."""
        copy = self.path(model)
        shutil.copytree(os.path.join(HF_MODELS, model), copy)
        return copy

    def succeeds(self, *arguments, **more):
        done = ullage(*arguments, **more)
        self.assertEqual(done.returncode, 0, (arguments, done.stderr))
        return (done.stdout or b"").decode(errors="replace")

    def fails(self, code, arguments, *parts, **more):
        """One line of error on stderr with every part in it, nothing on stdout, and the exit code."""
        done = ullage(*arguments, **more)
        error = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, (arguments, error))
        self.assertEqual(done.stdout, b"", arguments)
        self.assertRegex(error, r"(?m)^error: ", arguments)
        for part in parts:
            self.assertIn(part, error, arguments)
        return error

    def usage_fails(self, arguments, *parts):
        return self.fails(2, arguments, *parts)

    def run_fails(self, arguments, *parts, **more):
        return self.fails(1, arguments, *parts, **more)


class Help(CliTest):
    def test_every_command_explains_itself_with_examples(self):
        text = self.succeeds("--help")
        for part in ("serve", "generate", "inspect", "stories260K", "Exit codes"):
            self.assertIn(part, text)
        for command in ("serve", "generate", "inspect", "devices", "models", "calibrate"):
            text = self.succeeds(command, "--help")
            self.assertIn("Examples:", text)
            self.assertIn(f"ullage {command} ", text)

    def test_the_page_about_serve_knows_the_same_flags(self):
        with open(os.path.join(SOURCE, "docs", "serve.md"), encoding="utf-8") as file:
            page = file.read()
        documented = set(re.findall(r"`(?:[^`]*[ ,])?(--[a-z][a-z-]*)", page))
        text = self.succeeds("serve", "--help")
        known = set(re.findall(r"--[a-z][a-z-]*", text))
        self.assertEqual(documented - known, set())
        # The other way round: one spelling of each flag.
        for line in re.findall(r"(?m)^  ((?:-\w,)?--[a-z][^ ]*)", text):
            spellings = set(re.findall(r"--[a-z][a-z-]*", line))
            if not spellings & {"--help", "--model"}:
                self.assertTrue(spellings & documented, f"docs/serve.md says nothing of {line}")

    def test_version(self):
        self.assertRegex(self.succeeds("--version"), r"^ullage \d+\.\d+\.\d+\n$")


class Usage(CliTest):
    def test_commands(self):
        self.usage_fails([], "a command is missing")
        self.usage_fails(["serv", STORIES], '"serv"', "did you mean serve?")
        self.usage_fails(["zzz"], '"zzz"', "serve, generate, inspect")
        self.usage_fails(["--port", "1", "serve"], "--port")

    def test_what_is_missing_or_too_much(self):
        self.usage_fails(["inspect"], "MODEL is missing")
        self.usage_fails(["generate", STORIES], "prompt is missing")
        self.usage_fails(["generate", STORIES, "once", "upon"], '"upon"', "quotes")

    def test_an_unknown_flag_is_named_with_the_nearest_known(self):
        self.usage_fails(["generate", STORIES, "x", "--max-token", "4"], "no flag --max-token;", "--max-tokens")
        self.usage_fails(["generate", STORIES, "x", "--max_tokens=4"], "no flag --max_tokens;", "--max-tokens")
        self.usage_fails(["inspect", "--jsn"], "--jsn", "--json")
        self.usage_fails(["serve", STORIES, "--quantum"], "no flag --quantum\n")

    def test_values_out_of_range(self):
        generate = ["generate", STORIES, "x"]
        for flag, values in {
            "--max-tokens": ["0", "-5", "99999999999999999999", "", "nan", "8k", "1.5"],
            "--temperature": ["nan", "inf", "-1", "", "hot"],
            "--top-p": ["0", "nan", "1.01", "-0.1"],
            "--top-k": ["-1", "nan"],
            "--min-p": ["nan", "2"],
            "--repetition-penalty": ["nan", "0"],
            "--memory-utilization": ["nan", "0", "1.5"],
            "--threads": ["-1", "1025", "two"],
            "--seed": ["-1", "", "1e3", "99999999999999999999"],
            "--kv-cache-memory": ["", "0", "-1", "5Q", "1e3", "99999999999999999999GiB", "nan"],
            "--max-model-len": ["", "0", "1", "512.5", "-2", "8q"],
            "--block-size": ["0", "-1", "1025", "nan"],
            "--num-blocks": ["1", "2147483648"],
            "--max-num-seqs": ["0", "65537"],
            "--max-num-batched-tokens": ["0", "1M1"],
            "--max-queue-len": ["0"],
            "--kv-cache-dtype": ["q8_0", ""],
            "--executor": ["cuda"],
            "--tensor-parallel-size": ["2"],
            "--chat-template": ["alpaca"],
        }.items():
            for value in values:
                self.usage_fails([*generate, f"{flag}={value}" if value else flag, *([] if value else [""])],
                                 flag.replace("--memory-util", "--gpu-memory-util").replace("--num-blocks", "--num-"))
        for flag, values in {
            "--port": ["-1", "65536", "http"],
            "--host": [""],
            "--idle-timeout": ["nan", "inf", "0", "-1"],
            "--max-body-size": ["0", "-1"],
            "--max-header-size": ["255"],
            "--max-connections": ["0"],
            "--metrics-prefix": ["a b", "1a"],
            "--allowed-origins": ["a\r\nb"],
            "--served-model-name": [""],
            "--api-key": [""],
            "--log-level": ["loud"],
        }.items():
            for value in values:
                self.usage_fails(["serve", STORIES, flag, value], flag)

    def test_flags_that_need_each_other(self):
        self.run_fails(["generate", STORIES, "x", "-n", "5", "--min-tokens", "6"], "--min-tokens", "--max-tokens 5")
        self.run_fails(["generate", STORIES, "x", "--system", "be brief"], "--system", "--chat")
        self.run_fails(["generate", STORIES, "x", "--chat-template", "chatml"], "--chat-template", "--chat")
        self.run_fails(["generate", STORIES, "x", "-ctk", "f16", "-ctv", "f32"], "--cache-type-v")

    def test_one_api_key_does_not_swallow_the_model(self):
        error = self.run_fails(["serve", "--api-key", "secret", self.path("none.gguf")], "none.gguf")
        self.assertNotIn("MODEL", error)


class Inspect(CliTest):
    def test_says_what_a_model_is(self):
        text = self.succeeds("inspect", "stories260K")
        for part in ("llama", "260,032", "5 layers of 4 KV heads"):
            self.assertIn(part, text)

    def test_json(self):
        for model in (STORIES, os.path.join(HF_MODELS, "qwen3-tied"),
                      os.path.join(HF_MODELS, "qwen3-tied", "config.json")):
            document = json.loads(self.succeeds("inspect", model, "--json"))
            self.assertEqual(document["schema_version"], 1)
            self.assertGreater(document["parameters"]["total"], 0)
            self.assertGreater(document["kv_cache"]["bytes_per_token"]["bf16"], 0)

    def test_paths_with_spaces_and_relative_ones(self):
        os.mkdir(self.path("my models"))
        shutil.copy(STORIES, self.path("my models", "a story.gguf"))
        self.succeeds("inspect", self.path("my models", "a story.gguf"))
        self.succeeds("inspect", "my models", cwd=self.folder)
        self.succeeds("inspect", "./my models/", cwd=self.folder)

    def test_names_in_the_hugging_face_cache(self):
        snapshot = self.path("hub", "models--org--tiny", "snapshots", "abc")
        shutil.copytree(os.path.join(HF_MODELS, "qwen2-tied"), snapshot)
        env = {"HF_HOME": self.folder}
        self.assertIn("org/tiny", self.succeeds("inspect", "org/tiny", env=env))
        self.run_fails(["inspect", "org/tinny"], "org/tinny", "hf download", env=env)
        for file in os.listdir(snapshot):
            if file.endswith(".safetensors"):
                os.remove(os.path.join(snapshot, file))
        self.assertIn("no weights were given", self.succeeds("inspect", "org/tiny", env=env))
        self.succeeds("generate", "org/tiny", "x", "-n", "2", "--executor", "modelled", env=env)
        self.run_fails(["generate", "org/tiny", "x"], "no weights", env=env)

    def test_what_is_no_model(self):
        for bad in ("/dev/null", "/dev/zero", self.folder, os.path.join(SOURCE, "README.md"), self.path("none.gguf")):
            self.run_fails(["inspect", bad], bad)
        self.run_fails(["inspect", ""], "no such file")
        os.mkfifo(self.path("pipe.gguf"))  # must not wait for its writer
        self.run_fails(["inspect", self.path("pipe.gguf")], "pipe.gguf", "not a regular file")

    def test_a_name_cannot_write_to_the_terminal(self):
        with open(STORIES, "rb") as file:
            data = file.read()
        with open(self.path("a.gguf"), "wb") as file:
            file.write(data.replace(struct.pack("<Q", 11) + b"stories260K", struct.pack("<Q", 11) + b"\x1b[31mred\x07\n!"))
        text = self.succeeds("inspect", self.path("a.gguf"))
        self.assertIn("(?[31mred??!)", text)


class BadModels(CliTest):
    def test_a_file_cut_short(self):
        with open(STORIES, "rb") as file:
            data = file.read()
        for size in (0, 3, 4, 8, 24, 1000, 14000, len(data) // 2, len(data) - 1):
            with open(self.path("cut.gguf"), "wb") as file:
                file.write(data[:size])
            self.run_fails(["generate", self.path("cut.gguf"), "x"], "cut.gguf")

    def test_config_json(self):
        folder = self.copy_of("llama-tied-f32")
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)

        def fails_with(changes, *parts):
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump({**config, **changes}, file)
            self.run_fails(["inspect", folder], *parts)

        for model_type in ("gemma", "mixtral", "deepseek_v3", "qwen3_moe"):
            fails_with({"model_type": model_type}, f'"{model_type}" is not supported', "qwen3 (dense)")
        fails_with({"hidden_size": "wide"}, "config.json/hidden_size")
        fails_with({"num_key_value_heads": 3}, "3 key and value heads")
        fails_with({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, '"dynamic"', "yarn")
        fails_with({"quantization_config": {"quant_method": "gptq"}}, '"gptq"')
        fails_with({"num_hidden_layers": 1}, "do not belong together")
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"a":' * 100000)
        self.run_fails(["inspect", folder], "config.json", "nested")

    def test_a_directory_without_a_tokenizer(self):
        folder = self.copy_of("llama-tied-f32")
        os.remove(os.path.join(folder, "tokenizer.json"))
        self.succeeds("inspect", folder)
        self.run_fails(["generate", folder, "x"], "tokenizer.json")
        self.succeeds("generate", folder, "x", "-n", "2", "--tokenizer", os.path.join(HF_MODELS, "llama-tied-f32"))

    def test_a_token_beyond_the_embedding_is_refused(self):
        folder = self.copy_of("llama-tied-f32")
        path = os.path.join(folder, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            tokenizer = json.load(file)
        tokenizer["added_tokens"].append({"id": 272, "content": "<extra>", "special": True})
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        self.succeeds("generate", folder, "x", "-n", "2")
        self.run_fails(["generate", folder, "x<extra>", "-n", "2"], "prompt", "<extra>", "272")

    def test_a_model_file_cut_while_it_is_used(self):
        shutil.copy(STORIES, self.path("a.gguf"))
        command = [ULLAGE, "generate", self.path("a.gguf"), "x", "-n", "500", "--ignore-eos", "--no-kv-cache"]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.assertTrue(process.stdout.read(1))
            os.truncate(self.path("a.gguf"), 4096)
            _, error = process.communicate(timeout=60 * SLOWNESS)
        self.assertIn(b"cut short", error)
        self.assertEqual(process.returncode, 1)


class Generate(CliTest):
    def test_text_on_stdout_and_numbers_on_stderr(self):
        done = ullage("generate", "stories260K", "Once upon a time", "-n", "8")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"there was", done.stdout)
        self.assertRegex(done.stderr, rb"TTFT .* tokens/s decode; length")

    def test_json(self):
        document = json.loads(self.succeeds("generate", STORIES, "Once", "-n", "8", "--json"))
        self.assertEqual(document["schema_version"], 1)
        self.assertEqual(document["num_output_tokens"], 8)
        self.assertEqual(len(document["token_ids"]), 8)
        self.assertEqual(document["finish_reason"], "length")

    def test_the_cache_its_dtype_and_threads_do_not_change_the_answer(self):
        def answer(*flags):
            return json.loads(self.succeeds("generate", STORIES, "Once", "-n", "24", "--json", *flags))["token_ids"]

        wanted = answer()
        for flags in (["--no-kv-cache"], ["--threads", "1"], ["--threads", "2"], ["--threads", "1000"],
                      ["--kv-cache-memory", "40k"], ["--block-size", "7"], ["-b", "1"]):
            self.assertEqual(answer(*flags), wanted, flags)
        for dtype in ("f32", "f16"):
            self.assertEqual(answer("--kv-cache-dtype", dtype), answer("--kv-cache-dtype", dtype, "--no-kv-cache"))

    def test_odd_prompts(self):
        self.succeeds("generate", STORIES, "-5 degrees", "-n", "2")
        self.succeeds("generate", STORIES, "", "-n", "2")  # BOS alone begins a story
        self.succeeds("generate", STORIES, b"\xff\xfe abc", "-n", "2")
        self.succeeds("generate", STORIES, "-", "-n", "2", stdin=None, input=b"Once")
        self.run_fails(["generate", STORIES, "a" * 5000], "5001 tokens", "512")
        self.run_fails(["generate", STORIES, "x", "-c", "8k"], "--max-model-len", "8000", "512")
        self.run_fails(["generate", STORIES, "x", "--kv-cache-memory", "1"], "no room for a KV cache", "10.00 KiB")
        self.run_fails(["generate", STORIES, "x", "--num-blocks", "2147483647"], "--num-gpu-blocks-override", "or fewer")
        self.run_fails(["generate", STORIES, "x", "--chat"], "no chat template", "--chat-template")

    def test_a_model_with_a_sliding_window_runs(self):
        self.succeeds("generate", os.path.join(HF_MODELS, "mistral-window"), "hello " * 20, "-n", "8")


class Outputs(CliTest):
    def test_a_full_disk_is_told(self):
        for arguments in (["inspect", STORIES], ["inspect", STORIES, "--json"], ["generate", STORIES, "x", "-n", "9"],
                          ["generate", STORIES, "x", "-n", "9", "--json"], ["--help"]):
            with open("/dev/full", "wb") as full:
                done = ullage(*arguments, stdout=full)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(b"standard output: cannot be written: No space left", done.stderr)

    def test_a_decision_log_that_is_not_whole_is_told(self):
        self.succeeds("generate", STORIES, "x", "-n", "9", "--decision-log", self.path("log"))
        with open(self.path("log"), encoding="utf-8") as file:
            self.assertGreater(len([json.loads(line) for line in file]), 9)
        done = ullage("generate", STORIES, "x", "-n", "9", "--decision-log", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--decision-log", done.stderr)
        self.run_fails(["generate", STORIES, "x", "--decision-log", self.path("no", "log")], "cannot be written")

    def test_nobody_reads_stderr(self):
        with open("/dev/full", "wb") as full:
            self.assertEqual(ullage("generate", STORIES, "x", "-n", "3", stderr=full).returncode, 0)
            self.assertEqual(ullage("inspect", "/nonexistent", stderr=full).returncode, 1)

    def test_closed_streams(self):
        script = '"$0" generate "$1" x -n 3'
        for redirection, code in (("2>&-", 0), ("<&-", 0), (">&-", 1), (">&- 2>&- <&-", 1)):
            done = subprocess.run(["sh", "-c", f"{script} {redirection}", ULLAGE, STORIES], env=ENVIRONMENT,
                                  capture_output=True, timeout=60 * SLOWNESS)
            self.assertEqual(done.returncode, code, (redirection, done.stderr))

    def test_a_reader_that_leaves_ends_it(self):
        command = [ULLAGE, "generate", STORIES, "x", "-n", "500", "--ignore-eos", "--no-kv-cache"]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.stdout.close()
            process.stderr.read()
            self.assertEqual(process.wait(60 * SLOWNESS), -signal.SIGPIPE)


class Signals(CliTest):
    def test_an_interrupted_answer_ends_with_its_numbers(self):
        command = [ULLAGE, "generate", STORIES, "x", "-n", "500", "--ignore-eos", "--no-kv-cache"]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=60 * SLOWNESS)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"; cancelled", error)

    def test_serve_can_be_stopped_while_it_loads(self):
        # Reading this much JSON takes a moment.
        folder = self.copy_of("llama-tied-f32")
        vocabulary = ",".join(f'"t{i}":{i}' for i in range(1500000))
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write('{"model":{"type":"BPE","vocab":{%s},"merges":[]}}' % vocabulary)
        command = [ULLAGE, "serve", folder, "--port", "0"]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            # Once it waits for signals: before that the shell's rules end it, as they do any program.
            while process.poll() is None and not self.is_blocking(process.pid, signal.SIGTERM):
                time.sleep(0.001)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60 * SLOWNESS)
        self.assertEqual((process.returncode, output), (130, b""))

    @staticmethod
    def is_blocking(pid, number):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            mask = int(re.search(r"(?m)^SigBlk:\s*(\w+)", file.read()).group(1), 16)
        return bool(mask >> (number - 1) & 1)


class Catalogues(CliTest):
    def test_devices_are_listed_found_and_shown(self):
        text = self.succeeds("devices")
        for name in ("h100", "rtx4090", "mi300x", "tpu-v5e", "m4-max-128gb", "gb10", "epyc-9654"):
            self.assertRegex(text, rf"(?m)^{name} ")
        text = self.succeeds("devices", "NVIDIA H100 80GB HBM3")
        for part in ("NVIDIA H100 SXM5 80GB (h100)", "79.19 GiB", "3.35 TB/s", "295.3 bf16 FLOP per byte", "datasheet"):
            self.assertIn(part, text)
        text = self.succeeds("devices", "rtx50")  # several
        self.assertRegex(text, r"(?m)^rtx5090 ")
        self.assertNotRegex(text, r"(?m)^h100 ")
        self.run_fails(["devices", "h10O"], "NAME", '"h10O"', "h100")

    def test_devices_as_json_are_a_file_of_devices(self):
        own = self.path("mine.json")
        with open(own, "w", encoding="utf-8") as file:
            json.dump({"devices": [{"id": "h100", "bandwidth_gb_s": 3000}]}, file)
        first = self.succeeds("devices", "--json", "--devices", own)
        h100 = next(device for device in json.loads(first)["devices"] if device["id"] == "h100")
        self.assertEqual((h100["bandwidth_gb_s"], h100["tflops"]["bf16"]), (3000, 989.4))
        again = self.path("again.json")
        with open(again, "w", encoding="utf-8") as file:
            file.write(first)
        self.assertEqual(self.succeeds("devices", "--json", "--devices", again), first)
        self.assertEqual(self.succeeds("devices", "--json", env={"ULLAGE_DEVICES": own}), first)

    def test_bad_device_files_are_located(self):
        self.run_fails(["devices", "--devices", self.path("none.json")], "none.json")
        bad = self.path("bad.json")
        for text, part in (("{", "bad.json"), ('{"devices":[{"id":"x"}]}', "bad.json#/devices/0"),
                           ('{"devices":[{"id":"h100","tflops":{"bf16":-1}}]}', "#/devices/0/tflops/bf16")):
            with open(bad, "w", encoding="utf-8") as file:
                file.write(text)
            self.run_fails(["devices", "--devices", bad], part)

    def test_models_are_listed_and_counted(self):
        text = self.succeeds("models")
        self.assertRegex(text, r"(?m)^meta-llama/Llama-3.1-8B-Instruct +8.03 B +131,072 +- +131,072$")
        models = json.loads(self.succeeds("models", "--json", "qwen3-8b"))["models"]
        qwen = next(model for model in models if model["id"] == "Qwen/Qwen3-8B")
        self.assertEqual((qwen["kv_bytes_per_token"], qwen["max_position_embeddings"]), (147456, 40960))
        self.run_fails(["models", "qwen3-8x"], "NAME", "Qwen/Qwen3-8B")

    def test_calibrate_measures_into_a_device(self):
        out = self.path("this.json")
        quick = ["calibrate", "--rounds", "1", "--stream", "4MiB", "--threads", "1"]
        printed = json.loads(self.succeeds(*quick, "--json", "--out", out))
        self.assertEqual(printed["devices"][0]["id"], "this")
        self.assertGreater(printed["devices"][0]["bandwidth_gb_s"], 0.01)
        self.assertEqual(len(printed["measured"]["by_weights"]), 6)
        self.assertIn("measured by ullage calibrate", self.succeeds("devices", "this", "--devices", out))
        self.run_fails([*quick, "--isa", "mmx"], "--isa", "auto, portable, avx2 or avx512")
        for flag, value in (("--rounds", "0"), ("--threads", "-1"), ("--stream", "1KiB"), ("--stream", "much")):
            self.usage_fails(["calibrate", flag, value], flag)

    def test_calibrate_can_be_interrupted(self):
        out = self.path("this.json")
        command = [ULLAGE, "calibrate", "--rounds", "1000", "--out", out]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stderr.readline()  # it measures
            process.send_signal(signal.SIGINT)
            output, error = process.communicate(timeout=60 * SLOWNESS)
        self.assertEqual((process.returncode, output), (130, b""))
        self.assertIn(b"interrupted", error)
        self.assertFalse(os.path.exists(out))



if __name__ == "__main__":
    unittest.main()
