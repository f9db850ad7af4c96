// From a typed request to what the engine takes: tokens, the model's defaults, and the checks that need the model.
// Pure; runs on the worker threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/result.h"
#include "ullage/sched/request.h"
#include "ullage/serve/choice_stream.h"
#include "ullage/serve/model_info.h"
#include "ullage/serve/openai_request.h"
#include "ullage/serve/openai_response.h"
#include "ullage/text/tokenizer.h"

namespace ullage::serve {

struct PreparedPrompt {
  std::vector<TokenId> tokens;
  std::string echo;        // the prompt's text, when it is to be sent back
  int64_t max_tokens = 0;  // of the output
};

struct PreparedRequest {
  Api api = Api::kCompletion;
  GenerationFields fields;
  std::vector<PreparedPrompt> prompts;
  sched::SamplingParams sampling;  // its seed is read when the client gave one
  sched::StopParams stop;          // but max_tokens, which is the prompt's
};

// The engine's view of choice `index` of a prompt. `seed`: of the request; each choice's own is derived from it. The id
// and the arrival are left to the caller.
sched::RequestParams make_engine_request(const PreparedRequest& request, const PreparedPrompt& prompt, int64_t index,
                                         uint64_t seed);
ChoiceOptions make_choice_options(const PreparedRequest& request);

// kNotFound for a model that is not served; kTooLarge, with the numbers, for what exceeds max_model_len.
Result<PreparedRequest> prepare(CompletionRequest request, const ModelInfo& model, const text::Tokenizer& tokenizer);
Result<PreparedRequest> prepare(ChatRequest request, const ModelInfo& model, const text::Tokenizer& tokenizer);

// A text's or a chat's tokens, as the engine would see them. kTooLarge for texts that are far from fitting, which are
// not read at all.
Result<std::vector<TokenId>> tokenize_text(const std::string& text, bool add_special_tokens, const ModelInfo& model,
                                           const text::Tokenizer& tokenizer, std::string_view where);
Result<std::vector<TokenId>> tokenize_chat(const std::vector<text::ChatMessage>& messages, bool add_generation_prompt,
                                           bool add_special_tokens, const ModelInfo& model,
                                           const text::Tokenizer& tokenizer);
// Empty names the first model. kNotFound otherwise unless it is served.
Result<void> check_model_name(const std::string& name, const ModelInfo& model);

}  // namespace ullage::serve
