"""The API as clients see it: routes, answers, streams, errors, limits. Standard library only."""

import json
import sys
import unittest

from server_process import Server, parse_stream

PROMPT = "Once upon a time, there was a"


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", "chatml", "--served-model-name", "tiny", "--served-model-name", "other")
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def complete(self, **fields):
        status, answer = self.server.post("/v1/completions", {"prompt": PROMPT, "temperature": 0, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def chat(self, **fields):
        messages = [{"role": "user", "content": "Tell me a story."}]
        status, answer = self.server.post("/v1/chat/completions", {"messages": messages, "temperature": 0, **fields})
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, status, fields, path="/v1/completions", **base):
        if not base:
            base = {"prompt": PROMPT} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "a"}]}
        got, answer = self.server.post(path, {**base, **fields})
        self.assertEqual(got, status, answer)
        self.assertEqual(set(answer), {"error"})
        self.assertEqual(set(answer["error"]), {"message", "type", "param", "code"})
        self.assertTrue(answer["error"]["message"])
        return answer["error"]

    # Routes

    def test_small_routes(self):
        for path in ("/health", "/ping"):
            self.assertEqual(self.server.get(path)[0], 200)
            self.assertEqual(self.server.get(path)[2], b"")
        self.assertIn("version", json.loads(self.server.get("/version")[2]))
        self.assertEqual(json.loads(self.server.get("/load")[2]), {"server_load": 0})
        props, slots = (json.loads(self.server.get(path)[2]) for path in ("/props", "/slots"))
        self.assertEqual(props["default_generation_settings"]["n_ctx"],
                         json.loads(self.server.get("/v1/models")[2])["data"][0]["max_model_len"])
        self.assertEqual(props["total_slots"], len(slots))
        self.assertFalse(any(slot["is_processing"] for slot in slots))

    def test_models(self):
        answer = json.loads(self.server.get("/v1/models")[2])
        self.assertEqual(answer["object"], "list")
        self.assertEqual([model["id"] for model in answer["data"]], ["tiny", "other"])
        for model in answer["data"]:
            self.assertEqual(model["object"], "model")
            self.assertTrue(model["root"])
            self.assertGreater(model["max_model_len"], 0)
            self.assertIn("created", model)
            self.assertIn("owned_by", model)
        self.assertEqual(json.loads(self.server.get("/v1/models/other")[2])["id"], "other")
        self.assertEqual(self.server.get("/v1/models/none")[0], 404)

    def test_unknown_paths_and_methods(self):
        status, _, body = self.server.get("/v1/nothing")
        self.assertEqual(status, 404)
        self.assertIn("message", json.loads(body)["error"])
        status, headers, body = self.server.get("/v1/completions")
        self.assertEqual(status, 405)
        self.assertIn("POST", headers["allow"])
        self.assertEqual(self.server.request("DELETE", "/v1/models")[0], 405)
        self.assertEqual(self.server.request("POST", "/health", "{}")[0], 405)

    def test_head_has_the_length_and_no_body(self):
        status, headers, body = self.server.request("HEAD", "/v1/models")
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(int(headers["content-length"]), len(self.server.get("/v1/models")[2]))

    def test_cors(self):
        status, headers, _ = self.server.request(
            "OPTIONS", "/v1/chat/completions",
            headers={"Origin": "http://page.example", "Access-Control-Request-Method": "POST",
                     "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang"})
        self.assertIn(status, (200, 204))
        self.assertEqual(headers["access-control-allow-origin"], "*")
        for name in ("authorization", "content-type", "x-stainless-lang"):
            self.assertIn(name, headers["access-control-allow-headers"])
        self.assertIn("POST", headers["access-control-allow-methods"])
        self.assertEqual(self.server.get("/v1/models")[1]["access-control-allow-origin"], "*")
        self.assertEqual(self.server.get("/nothing")[1]["access-control-allow-origin"], "*")

    def test_request_id_is_echoed(self):
        _, headers, body = self.server.request(
            "POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, headers={"X-Request-Id": "abc-7"})
        self.assertEqual(headers["x-request-id"], "abc-7")
        self.assertEqual(json.loads(body)["id"], "cmpl-abc-7")

    def test_metrics_have_vllms_names(self):
        self.complete(max_tokens=3)
        samples = self.server.metrics()
        for name in ("num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason",
                     "kv_cache_usage_perc", "cache_config_info", "prefix_cache_queries_total",
                     "prefix_cache_hits_total", "num_preemptions_total", "prompt_tokens_total",
                     "prompt_tokens_cached_total", "prompt_tokens_by_source_total", "generation_tokens_total",
                     "request_success_total"):
            self.assertIn("vllm:" + name, samples)
        for name in ("time_to_first_token_seconds", "inter_token_latency_seconds",
                     "request_time_per_output_token_seconds", "e2e_request_latency_seconds",
                     "request_queue_time_seconds", "request_inference_time_seconds", "request_prefill_time_seconds",
                     "request_decode_time_seconds", "iteration_tokens_total", "request_prompt_tokens",
                     "request_generation_tokens", "request_max_num_generation_tokens", "request_params_n",
                     "request_params_max_tokens", "request_prefill_kv_computed_tokens"):
            for suffix in ("_bucket", "_sum", "_count"):
                self.assertIn("vllm:" + name + suffix, samples)
        labels = next(iter(samples["vllm:num_requests_running"]))
        self.assertEqual(dict(labels), {"model_name": "tiny", "engine": "0"})
        config = dict(next(iter(samples["vllm:cache_config_info"])))
        self.assertEqual(int(config["kv_cache_size_tokens"]), int(config["num_gpu_blocks"]) * 16)
        for name in ("process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"):
            self.assertGreater(self.server.metric(name), 0)

    def test_metrics_count_what_was_done(self):
        before = self.server.metrics()
        answer = self.complete(max_tokens=9, ignore_eos=True)
        self.server.wait_until_idle()
        after = self.server.metrics()

        def rise(name, **labels):
            wanted = set(labels.items())
            pick = lambda samples: sum(v for have, v in samples[name].items() if wanted <= have)
            return pick(after) - pick(before)

        self.assertEqual(rise("vllm:generation_tokens_total"), 9)
        self.assertEqual(rise("vllm:prompt_tokens_total"), answer["usage"]["prompt_tokens"])
        self.assertEqual(rise("vllm:request_success_total", finished_reason="length"), 1)
        self.assertEqual(rise("vllm:time_to_first_token_seconds_count"), 1)
        self.assertEqual(rise("vllm:inter_token_latency_seconds_count"), 8)
        self.assertEqual(rise("vllm:e2e_request_latency_seconds_count"), 1)
        self.assertEqual(rise("vllm:request_generation_tokens_sum"), 9)
        self.assertEqual(rise("ullage_http_requests_total", route="/v1/completions", status="200"), 1)

    # Answers

    def test_completion_shape(self):
        answer = self.complete(max_tokens=5)
        self.assertTrue(answer["id"].startswith("cmpl-"))
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["model"], "tiny")
        choice, = answer["choices"]
        self.assertEqual(choice["index"], 0)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertIsNone(choice["logprobs"])
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 5)
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        self.assertEqual(self.complete()["usage"]["completion_tokens"], 16)

    def test_chat_shape(self):
        answer = self.chat(max_completion_tokens=6, model="other")
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["model"], "other")
        message = answer["choices"][0]["message"]
        self.assertEqual(message["role"], "assistant")
        self.assertIsInstance(message["content"], str)
        parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story."}]}]
        status, same = self.server.post("/v1/chat/completions",
                                        {"messages": parts, "temperature": 0, "max_tokens": 6})
        self.assertEqual((status, same["choices"][0]["message"]), (200, message))

    def test_stream_is_the_whole_answer_one_chunk_a_token(self):
        whole = self.complete(max_tokens=20)
        chunks = self.server.stream("/v1/completions", {
            "prompt": PROMPT, "temperature": 0, "max_tokens": 20, "stream_options": {"include_usage": True}})
        usage = chunks.pop()
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertEqual(len(chunks), whole["usage"]["completion_tokens"])
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), whole["choices"][0]["text"])
        self.assertEqual({c["object"] for c in chunks}, {"text_completion"})
        self.assertEqual(len({c["id"] for c in chunks}), 1)
        reasons = [c["choices"][0]["finish_reason"] for c in chunks]
        self.assertEqual(reasons, [None] * (len(chunks) - 1) + ["length"])

    def test_chat_stream(self):
        whole = self.chat(max_tokens=8)
        chunks = self.server.stream("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0, "max_tokens": 8})
        self.assertEqual(len(chunks), whole["usage"]["completion_tokens"])
        deltas = [c["choices"][0]["delta"] for c in chunks]
        self.assertEqual("".join(d["content"] for d in deltas), whole["choices"][0]["message"]["content"])
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertTrue(all("role" not in d for d in deltas[1:]))
        self.assertEqual({c["object"] for c in chunks}, {"chat.completion.chunk"})
        self.assertIsNotNone(chunks[-1]["choices"][0]["finish_reason"])
        self.assertTrue(all("usage" not in c for c in chunks))

    def test_continuous_usage(self):
        chunks = self.server.stream("/v1/completions", {
            "prompt": PROMPT, "max_tokens": 4, "ignore_eos": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
        self.assertEqual([c["usage"]["completion_tokens"] for c in chunks], [1, 2, 3, 4, 4])

    def test_n_choices_and_seeds(self):
        fields = dict(temperature=1.0, max_tokens=12, n=3, seed=11, ignore_eos=True)
        answer = self.complete(**fields)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2])
        self.assertEqual(answer["usage"]["completion_tokens"], 36)
        texts = [c["text"] for c in answer["choices"]]
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(texts, [c["text"] for c in self.complete(**fields)["choices"]])
        chunks = self.server.stream("/v1/completions", {"prompt": PROMPT, **fields})
        streamed = ["", "", ""]
        for chunk in chunks:
            streamed[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
        self.assertEqual(streamed, texts)

    def test_many_prompts_and_token_ids(self):
        tokens = self.server.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]
        text = self.complete(max_tokens=6)["choices"][0]["text"]
        for prompt in (tokens, [tokens], [PROMPT]):
            self.assertEqual(self.complete(prompt=prompt, max_tokens=6)["choices"][0]["text"], text)
        answer = self.complete(prompt=[PROMPT, "The dog", PROMPT], max_tokens=6)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2])
        self.assertEqual(answer["choices"][2]["text"], text)
        self.assertEqual(answer["usage"]["completion_tokens"], 18)

    def test_echo(self):
        text = self.complete(max_tokens=6)["choices"][0]["text"]
        self.assertEqual(self.complete(max_tokens=6, echo=True)["choices"][0]["text"], PROMPT + text)
        chunks = self.server.stream("/v1/completions",
                                    {"prompt": PROMPT, "temperature": 0, "max_tokens": 6, "echo": True})
        self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), PROMPT + text)
        self.assertEqual(len(chunks), 6)

    def test_stop_strings_are_never_seen(self):
        text = self.complete(max_tokens=60)["choices"][0]["text"]
        words = text.split(" ")
        stop = " " + " ".join(words[4:6])[:-1]
        expected = text[:text.index(stop)]
        for stops in (stop, ["never", stop]):
            choice = self.complete(max_tokens=60, stop=stops)["choices"][0]
            self.assertEqual(choice["text"], expected)
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        choice = self.complete(max_tokens=60, stop=stop, include_stop_str_in_output=True)["choices"][0]
        self.assertEqual(choice["text"], expected + stop)
        chunks = self.server.stream("/v1/completions",
                                    {"prompt": PROMPT, "temperature": 0, "max_tokens": 60, "stop": stop})
        sent = ""
        for chunk in chunks:
            sent += chunk["choices"][0]["text"]
            self.assertTrue(expected.startswith(sent))
        self.assertEqual(sent, expected)
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")
        self.server.wait_until_idle()

    def test_stop_tokens(self):
        answer = self.complete(max_tokens=12, return_token_ids=True)
        ids = answer["choices"][0]["token_ids"]
        self.assertEqual(len(ids), 12)
        stop = ids[5]
        choice = self.complete(max_tokens=12, stop_token_ids=[stop], return_token_ids=True)["choices"][0]
        self.assertEqual(choice["token_ids"], ids[:ids.index(stop) + 1])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
        later = self.complete(max_tokens=12, stop_token_ids=[stop], min_tokens=10, return_token_ids=True)["choices"][0]
        self.assertGreaterEqual(len(later["token_ids"]), 10)

    def test_completion_logprobs(self):
        choice = self.complete(max_tokens=8, logprobs=3)["choices"][0]
        logprobs = choice["logprobs"]
        self.assertEqual([len(logprobs[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [8] * 4)
        self.assertEqual("".join(logprobs["tokens"]), choice["text"])
        for i, (token, value, top) in enumerate(zip(logprobs["tokens"], logprobs["token_logprobs"],
                                                    logprobs["top_logprobs"])):
            self.assertLessEqual(value, 0)
            self.assertEqual(top[token], value)
            self.assertEqual(max(top.values()), value)  # greedy
            self.assertIn(len(top), (3, 4))
            self.assertEqual(logprobs["text_offset"][i], len("".join(logprobs["tokens"][:i])))
        self.assertEqual(len(self.complete(max_tokens=2, logprobs=0)["choices"][0]["logprobs"]["top_logprobs"][0]), 1)
        chunks = self.server.stream("/v1/completions",
                                    {"prompt": PROMPT, "temperature": 0, "max_tokens": 8, "logprobs": 3})
        joined = {key: sum((c["choices"][0]["logprobs"][key] for c in chunks), []) for key in logprobs}
        self.assertEqual(joined, logprobs)

    def test_chat_logprobs(self):
        choice = self.chat(max_tokens=5, logprobs=True, top_logprobs=2, ignore_eos=True)["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 5)
        for entry in content:
            self.assertEqual(set(entry), {"token", "logprob", "bytes", "top_logprobs"})
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["top_logprobs"][0]["token"], entry["token"])

    def test_logit_bias_forces_a_token(self):
        token = self.server.post("/tokenize", {"prompt": "dog", "add_special_tokens": False})[1]["tokens"][-1]
        choice = self.complete(max_tokens=3, logit_bias={str(token): 100}, return_token_ids=True)["choices"][0]
        self.assertEqual(choice["token_ids"], [token] * 3)

    def test_prefix_cache_shows_in_usage(self):
        prompt = "A tale that nobody else tells: " + "the cat sat on the mat and saw a dog. " * 6
        first = self.complete(prompt=prompt, max_tokens=2)["usage"]
        again = self.complete(prompt=prompt, max_tokens=2)["usage"]
        self.assertLess(first["prompt_tokens_details"]["cached_tokens"], 16)  # the first token may be known
        self.assertGreaterEqual(again["prompt_tokens_details"]["cached_tokens"], (first["prompt_tokens"] - 1) // 16 * 16)
        salted = self.complete(prompt=prompt, max_tokens=2, cache_salt="mine")["usage"]
        self.assertEqual(salted["prompt_tokens_details"]["cached_tokens"], 0)

    def test_tokenize_and_detokenize(self):
        status, answer = self.server.post("/tokenize", {"prompt": PROMPT, "return_token_strs": True})
        self.assertEqual(status, 200)
        self.assertEqual(answer["count"], len(answer["tokens"]))
        self.assertEqual(len(answer["token_strs"]), answer["count"])
        self.assertGreater(answer["max_model_len"], 0)
        plain = self.server.post("/tokenize", {"prompt": PROMPT, "add_special_tokens": False})[1]["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": plain}), (200, {"prompt": PROMPT}))
        chat = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]})[1]
        self.assertEqual(chat["count"], self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1})[1]["usage"]["prompt_tokens"])

    def test_unknown_fields_are_ignored(self):
        self.complete(max_tokens=1, never_heard_of=5, user="me", metadata={"a": "b"})

    # Errors

    def test_bad_fields_are_named(self):
        for fields, param in (({"temperature": -1}, "temperature"), ({"max_tokens": 0}, "max_tokens"),
                              ({"max_tokens": "x"}, "max_tokens"), ({"n": -3}, "n"), ({"stop": 3}, "stop"),
                              ({"prompt": {}}, "prompt"), ({"prompt": [99999]}, "prompt"), ({"prompt": []}, "prompt"),
                              ({"logprobs": 1000}, "logprobs"), ({"stream_options": {}}, "stream_options")):
            error = self.refused(400, fields)
            self.assertEqual(error["param"], param)
            self.assertEqual(error["type"], "invalid_request_error")
        self.refused(400, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
                     path="/v1/chat/completions")

    def test_unsupported_fields_are_refused_by_name(self):
        for field, value in (("tools", [{"type": "function", "function": {"name": "f"}}]),
                             ("response_format", {"type": "json_object"}), ("suffix", "x"), ("best_of", 2),
                             ("prompt_logprobs", 1), ("guided_json", {"type": "object"}), ("use_beam_search", True)):
            for path in ("/v1/completions", "/v1/chat/completions"):
                error = self.refused(400, {field: value}, path=path)
                self.assertEqual(error["param"], field)
                self.assertIn(field, error["message"])

    def test_unknown_model(self):
        error = self.refused(404, {"model": "gpt-9"})
        self.assertEqual(error["code"], "model_not_found")

    def test_too_long_has_the_numbers(self):
        limit = json.loads(self.server.get("/v1/models")[2])["data"][0]["max_model_len"]
        error = self.refused(400, {"prompt": [1] * limit})
        self.assertIn(str(limit), error["message"])
        error = self.refused(400, {"prompt": [1] * 10, "max_tokens": limit})
        for number in (limit, limit + 10, 10):
            self.assertIn(str(number), error["message"])
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_what_a_request_may_cost(self):
        text = "x" * (2 << 20)
        for field in ("stop", "cache_salt", "prompt"):
            self.assertEqual(self.refused(400, {field: text})["param"], field)
        self.refused(400, {"messages": [{"role": "user", "content": text}]}, path="/v1/chat/completions")
        self.refused(400, {"prompt": text}, path="/tokenize", model="tiny")
        kept = self.complete(prompt="one two three four five", truncate_prompt_tokens=2, echo=True, max_tokens=1)
        self.assertNotIn("three", kept["choices"][0]["text"])

    def test_bad_bodies(self):
        for body in (b"", b"{", b"[]", b'{"prompt": "a"}\0', b'{"prompt": "\xff"}', b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}"):
            status, _, text = self.server.request("POST", "/v1/completions", body)
            self.assertEqual(status, 400, text)
            self.assertIn("message", json.loads(text)["error"])
        # Parsed, this would take a gigabyte.
        status, _, text = self.server.request("POST", "/v1/completions", b'{"prompt": "a", "x": [' + b"[]," * (4 << 20) + b"[]]}")
        self.assertEqual(status, 400, text)
        self.assertIn("values", json.loads(text)["error"]["message"])
        status, _, text = self.server.request("POST", "/v1/completions", b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        self.assertEqual(status, 415, text)
        # Text that is odd, but text.
        self.complete(prompt="\u0000\ud83d\ude00 \ufffd \u202e", max_tokens=1)


class KeyTest(unittest.TestCase):
    def test_api_key(self):
        with Server("--api-key", "secret", "--allowed-origins", "http://one.example") as server:
            for header in (None, "Bearer wrong", "Bearer secre", "Bearer secrett", "secret", "Basic secret", ""):
                headers = {} if header is None else {"Authorization": header}
                for path in ("/v1/models", "/props", "/slots"):
                    status, _, body = server.get(path, headers=headers)
                    self.assertEqual(status, 401, header)
                    self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer secret"})[0], 200)
            for path in ("/health", "/metrics", "/version"):
                self.assertEqual(server.get(path)[0], 200)
            # A browser asks before it has a key.
            self.assertIn(server.request("OPTIONS", "/v1/models")[0], (200, 204))
            headers = server.get("/health", headers={"Origin": "http://one.example"})[1]
            self.assertEqual(headers["access-control-allow-origin"], "http://one.example")
            headers = server.get("/health", headers={"Origin": "http://two.example"})[1]
            self.assertNotIn("access-control-allow-origin", headers)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
