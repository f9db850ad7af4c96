"""A public load generator, LLMeter, unmodified, against the server. Run by with_venv.py, which installs it.

`vllm bench serve` and guidellm speak the same API and pull in torch; what they need beyond this (one chunk a token,
usage in a chunk without choices, `root` in /v1/models) is checked in test_api.py.
"""

import asyncio
import sys
import unittest

from llmeter.endpoints.openai import OpenAICompletionEndpoint, OpenAICompletionStreamEndpoint
from llmeter.runner import Runner

from server_process import SLOWNESS, Server


class LoadGeneratorTest(unittest.TestCase):
    def run_load(self, kind):
        with Server("--chat-template", "chatml", "--served-model-name", "tiny") as server:
            endpoint = kind(model_id="tiny", api_key="none", base_url=server.address + "/v1", max_retries=0)
            payloads = [kind.create_payload(f"Tell me story number {i}.", max_tokens=12) for i in range(4)]
            runner = Runner(endpoint=endpoint, clients=8, n_requests=4, payload=payloads, timeout=60 * SLOWNESS,
                            disable_per_client_progress_bar=True, disable_clients_progress_bar=True)
            result = asyncio.run(runner.run())
            stats = result.stats
            self.assertEqual(stats["failed_requests"], 0, [r.error for r in result.responses if r.error][:3])
            self.assertEqual(stats["total_requests"], 32)
            for response in result.responses:
                self.assertLessEqual(response.num_tokens_output, 12)
                self.assertGreater(response.num_tokens_output, 0)
                self.assertGreater(response.num_tokens_input, 0)
            server.wait_until_idle()
            self.assertEqual(server.metric("vllm:generation_tokens_total"),
                             sum(response.num_tokens_output for response in result.responses))
            return result

    def test_whole(self):
        self.run_load(OpenAICompletionEndpoint)

    def test_streamed(self):
        result = self.run_load(OpenAICompletionStreamEndpoint)
        for response in result.responses:
            self.assertGreater(response.time_to_first_token, 0)
            self.assertGreaterEqual(response.time_to_last_token, response.time_to_first_token)


if __name__ == "__main__":
    unittest.main(argv=sys.argv, verbosity=1)
