"""The `openai` package, unmodified, against the server. Run by with_venv.py, which installs it."""

import asyncio
import sys
import unittest

import openai

from server_process import Server

PROMPT = "Once upon a time, there was a"
MESSAGES = [{"role": "user", "content": "Tell me a story."}]


class OpenAiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--chat-template", "chatml", "--served-model-name", "tiny", "--api-key", "key", key="key")
        cls.server.__enter__()
        cls.base = cls.server.address + "/v1"
        cls.client = openai.OpenAI(base_url=cls.base, api_key="key", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").id, "tiny")

    def test_completions(self):
        whole = self.client.completions.create(model="tiny", prompt=PROMPT, max_tokens=12, temperature=0, logprobs=2)
        choice = whole.choices[0]
        self.assertEqual(choice.finish_reason, "length")
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        self.assertEqual(whole.usage.completion_tokens, 12)
        stream = self.client.completions.create(model="tiny", prompt=PROMPT, max_tokens=12, temperature=0, stream=True,
                                                stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].text for c in chunks if c.choices), choice.text)
        self.assertEqual(chunks[-1].usage.completion_tokens, 12)
        self.assertEqual(chunks[-1].choices, [])

    def test_chat(self):
        whole = self.client.chat.completions.create(model="tiny", messages=MESSAGES, max_completion_tokens=10,
                                                    temperature=0, logprobs=True, top_logprobs=3)
        message = whole.choices[0].message
        self.assertEqual(message.role, "assistant")
        content = whole.choices[0].logprobs.content
        self.assertEqual(len(content), whole.usage.completion_tokens)
        self.assertEqual(len(content[0].top_logprobs), 3)
        self.assertIsNotNone(whole.usage.prompt_tokens_details.cached_tokens)
        stream = self.client.chat.completions.create(model="tiny", messages=MESSAGES, max_completion_tokens=10,
                                                     temperature=0, stream=True)
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks), message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].choices[0].finish_reason, whole.choices[0].finish_reason)
        # The package's own assembler of streams agrees.
        with self.client.chat.completions.stream(model="tiny", messages=MESSAGES, max_completion_tokens=10,
                                                 temperature=0) as events:
            for _ in events:
                pass
            try:
                assembled = events.get_final_completion()
            except openai.LengthFinishReasonError as error:  # how it reports finish_reason "length"
                assembled = error.completion
            self.assertEqual(assembled.choices[0].message.content, message.content)

    def test_n_and_seed(self):
        ask = lambda: self.client.chat.completions.create(model="tiny", messages=MESSAGES, n=3, seed=5, temperature=1,
                                                          max_tokens=8, extra_body={"ignore_eos": True})
        first, second = ask(), ask()
        texts = [c.message.content for c in first.choices]
        self.assertEqual(len(texts), 3)
        self.assertGreater(len(set(texts)), 1)
        self.assertEqual(texts, [c.message.content for c in second.choices])

    def test_raw_response_has_the_request_id(self):
        raw = self.client.with_raw_response.models.list(extra_headers={"X-Request-Id": "abc"})
        self.assertEqual(raw.headers["x-request-id"], "abc")

    def test_errors_are_the_packages_own(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="other", prompt="a")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="tiny", prompt="a", temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="tiny", messages=MESSAGES, tools=[
                {"type": "function", "function": {"name": "f", "parameters": {}}}])
        self.assertEqual(caught.exception.param, "tools")
        with openai.OpenAI(base_url=self.base, api_key="wrong", max_retries=0) as stranger:
            with self.assertRaises(openai.AuthenticationError):
                stranger.models.list()

    def test_leaving_a_stream_frees_its_blocks(self):
        stream = self.client.completions.create(model="tiny", prompt=PROMPT, max_tokens=400, stream=True, n=16,
                                                extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.server.wait_until_idle()

    def test_async(self):
        async def one(client, i):
            if i % 2 == 0:
                answer = await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=10, seed=i,
                                                              temperature=1.0)
                return answer.choices[0].message.content
            stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=10, seed=i - 1,
                                                          temperature=1.0, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])

        async def everything():
            async with openai.AsyncOpenAI(base_url=self.base, api_key="key", max_retries=0) as client:
                return await asyncio.gather(*(one(client, i) for i in range(32)))

        texts = asyncio.run(everything())
        self.assertEqual(texts[0::2], texts[1::2])  # whole and streamed, in whatever company


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
