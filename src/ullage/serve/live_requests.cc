#include "ullage/serve/live_requests.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "ullage/serve/metrics.h"

namespace ullage::serve {

struct LiveRequests::Choice {
  Choice(Request& the_request, RequestId the_id, int64_t the_index, int64_t the_prompt,
         const text::Tokenizer& tokenizer, ChoiceOptions options)
      : request(the_request),
        id(the_id),
        index(the_index),
        prompt_index(the_prompt),
        stream(tokenizer, std::move(options)) {}

  Request& request;
  RequestId id;
  int64_t index;
  int64_t prompt_index;
  ChoiceStream stream;
  ChoiceResult result;  // of a whole answer
  // The last token, until it is known whether the engine ended the request with it (the same step says so).
  std::optional<sched::SampledToken> pending;
  int64_t cached_tokens = 0;
  bool has_arrived = false;
  bool is_done = false;
};

struct LiveRequests::Request {
  PreparedRequest prepared;
  ResponseHead head;
  std::shared_ptr<Exchange> exchange;
  std::vector<std::unique_ptr<Choice>> choices;  // prompt by prompt
  int64_t num_arrived = 0;
  int64_t num_done = 0;
  bool is_streaming = false;  // the head is sent
  bool is_dropped = false;
  std::string output;          // of a stream, since the last flush
  std::vector<bool> has_sent;  // by choice: its first chunk is out

  bool wants_stream() const { return prepared.fields.stream; }
  const PreparedPrompt& prompt(const Choice& choice) const {
    return prepared.prompts[static_cast<size_t>(choice.prompt_index)];
  }
};

namespace {

ApiError engine_error(const std::string& failure) {
  ApiError error;
  error.status = 503;
  error.type = "server_error";
  error.code = failure.empty() ? "cancelled" : "engine_failed";
  error.message = failure.empty() ? "The server is stopping; the request was cancelled."
                                  : "The engine has failed and the request was cancelled: " + failure;
  return error;
}

ChoiceEnding ending_of(sched::FinishReason reason) {
  switch (reason) {
    case sched::FinishReason::kStop:
      return ChoiceEnding::kStop;
    case sched::FinishReason::kLength:
      return ChoiceEnding::kLength;
    case sched::FinishReason::kCancelled:
      return ChoiceEnding::kAbort;
  }
  return ChoiceEnding::kAbort;
}

}  // namespace

LiveRequests::LiveRequests(EngineCommands& engine, const text::Tokenizer& tokenizer, Metrics& metrics)
    : engine_(engine), tokenizer_(tokenizer), metrics_(metrics) {}

LiveRequests::~LiveRequests() = default;

void LiveRequests::start(PreparedRequest prepared, ResponseHead head, uint64_t seed, Nanos arrival,
                         std::shared_ptr<Exchange> exchange) {
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  requests_.emplace(&request, std::move(owned));
  ++num_live_;
  request.prepared = std::move(prepared);
  request.head = std::move(head);
  request.exchange = std::move(exchange);
  request.exchange->on_gone([this, &request] { drop(request); });

  const int64_t n = request.prepared.fields.n;
  const int64_t num_choices = n * static_cast<int64_t>(request.prepared.prompts.size());
  request.has_sent.resize(static_cast<size_t>(num_choices), false);
  for (int64_t index = 0; index < num_choices; ++index) {
    request.choices.push_back(std::make_unique<Choice>(request, RequestId(++last_id_), index, index / n, tokenizer_,
                                                       make_choice_options(request.prepared)));
    Choice& choice = *request.choices.back();
    sched::RequestParams params = make_engine_request(request.prepared, request.prompt(choice), index % n, seed);
    params.id = choice.id;
    params.arrival = arrival;
    choices_.emplace(choice.id.value, &choice);
    if (auto submitted = engine_.submit(std::move(params)); !submitted) {
      choices_.erase(choice.id.value);
      choice.is_done = true;
      const std::string failure = engine_.failure();
      return fail(request, failure.empty() ? to_api_error(submitted.error()) : engine_error(failure));
    }
  }
}

void LiveRequests::on_events(std::span<const sched::Event> events) {
  std::vector<Choice*> touched;
  for (const sched::Event& event : events) {
    const auto it = choices_.find(event.request.value);
    if (it == choices_.end()) continue;  // ended by a stop string, or its client has left
    Choice& choice = *it->second;
    if (touched.empty() || touched.back() != &choice) touched.push_back(&choice);
    on_event(choice, event);
  }
  for (Choice* choice : touched) {
    if (!choice->request.is_dropped && choice->pending) flush_token(*choice, std::nullopt);
  }
  for (Choice* choice : touched) {
    if (!choice->request.is_dropped) flush_output(choice->request);
  }
  dropped_.clear();
}

void LiveRequests::on_event(Choice& choice, const sched::Event& event) {
  Request& request = choice.request;
  if (const auto* token = std::get_if<sched::TokenEvent>(&event.body)) {
    if (choice.pending) flush_token(choice, std::nullopt);
    if (!request.is_dropped && !choice.is_done) choice.pending = token->sampled;
  } else if (const auto* finished = std::get_if<sched::FinishedEvent>(&event.body)) {
    if (choice.is_done) return;
    if (choice.pending) flush_token(choice, EngineEnd{finished->reason, finished->stop_token});
    if (request.is_dropped || choice.is_done) return;
    choice.result.end.reason = finished->reason;
    end_choice(choice, finished->reason);
  } else if (std::holds_alternative<sched::ArrivedEvent>(event.body)) {
    if (!std::exchange(choice.has_arrived, true)) on_arrived(request);
  } else if (const auto* admitted = std::get_if<sched::AdmittedEvent>(&event.body)) {
    if (!admitted->is_resumed) choice.cached_tokens = admitted->num_cached_tokens;
  } else if (const auto* rejected = std::get_if<sched::RejectedEvent>(&event.body)) {
    choices_.erase(choice.id.value);
    choice.is_done = true;
    const std::string failure = engine_.failure();
    ApiError error = failure.empty() ? to_api_error(rejected->error) : engine_error(failure);
    if (error.code.empty() && rejected->error.code == ErrorCode::kTooLarge) error.code = "context_length_exceeded";
    error.param.clear();  // the engine's place is not a field of the client's
    fail(request, error);
  } else if (std::holds_alternative<sched::CancelledEvent>(event.body)) {
    choices_.erase(choice.id.value);
    choice.is_done = true;
    metrics_.count_ending(engine_.failure().empty() ? ChoiceEnding::kAbort : ChoiceEnding::kError);
    fail(request, engine_error(engine_.failure()));
  }
}

// A stream's head waits for the engine to take every choice: until then a refusal can have its own status.
void LiveRequests::on_arrived(Request& request) {
  if (++request.num_arrived < static_cast<int64_t>(request.choices.size())) return;
  if (!request.wants_stream()) return;
  request.is_streaming = true;
  request.exchange->start_stream({});
}

void LiveRequests::flush_token(Choice& choice, const std::optional<EngineEnd>& end) {
  Request& request = choice.request;
  const sched::SampledToken token = *std::exchange(choice.pending, std::nullopt);
  ChoiceDelta delta = choice.stream.push(token, end);
  const bool is_last = delta.end.has_value();
  const PreparedPrompt& prompt = request.prompt(choice);
  if (request.wants_stream()) {
    Chunk chunk;
    chunk.choice_index = choice.index;
    chunk.is_first = !request.has_sent[static_cast<size_t>(choice.index)];
    if (chunk.is_first) chunk.echo = prompt.echo;
    chunk.delta = &delta;
    chunk.prompt_tokens = prompt.tokens;
    request.has_sent[static_cast<size_t>(choice.index)] = true;
    const Usage usage{static_cast<int64_t>(prompt.tokens.size()), choice.stream.num_tokens(), choice.cached_tokens};
    append_chunk(request.output, request.head, chunk,
                 request.prepared.fields.continuous_usage_stats ? &usage : nullptr);
  } else {
    ChoiceResult& result = choice.result;
    if (result.tokens.empty()) result.text = prompt.echo;
    result.text += delta.text;
    result.tokens.push_back(delta.token);
    if (delta.logprobs) result.logprobs.push_back(std::move(*delta.logprobs));
    if (is_last) result.end = *delta.end;
  }
  if (!is_last) return;
  // A stop string ended the text, which the engine cannot know.
  if (!end) engine_.finish(choice.id, sched::FinishReason::kStop);
  end_choice(choice, delta.end->reason);
}

void LiveRequests::end_choice(Choice& choice, sched::FinishReason reason) {
  choice.is_done = true;
  metrics_.count_ending(ending_of(reason));
  choices_.erase(choice.id.value);
  Request& request = choice.request;
  if (++request.num_done == static_cast<int64_t>(request.choices.size())) complete(request);
}

void LiveRequests::complete(Request& request) {
  Usage usage;
  const auto n = static_cast<size_t>(request.prepared.fields.n);
  for (size_t p = 0; p < request.prepared.prompts.size(); ++p) {
    const PreparedPrompt& prompt = request.prepared.prompts[p];
    int64_t longest = 0;
    for (size_t i = p * n; i < (p + 1) * n; ++i) {
      usage.completion_tokens += request.choices[i]->stream.num_tokens();
      longest = std::max(longest, request.choices[i]->stream.num_tokens());
    }
    usage.prompt_tokens += static_cast<int64_t>(prompt.tokens.size());
    // The first choice tells how much of the prompt was there before the request; its siblings find what it computed.
    usage.cached_tokens += request.choices[p * n]->cached_tokens;
    metrics_.observe_request(request.prepared.fields.n, prompt.max_tokens, longest);
  }
  const std::shared_ptr<Exchange> exchange = request.exchange;
  if (request.wants_stream()) {
    if (request.prepared.fields.include_usage) append_usage_chunk(request.output, request.head, usage);
    append_stream_end(request.output);
    flush_output(request);
    if (request.is_dropped) return;  // the last write found the client gone
    drop(request);
    exchange->finish();
    return;
  }
  std::vector<ChoiceResult> results;
  results.reserve(request.choices.size());
  for (const auto& choice : request.choices) {
    choice->result.prompt_tokens = request.prompt(*choice).tokens;
    results.push_back(std::move(choice->result));
  }
  HttpResponse response;
  response.body = format_response(request.head, results, usage);
  drop(request);
  exchange->respond(std::move(response));
}

void LiveRequests::fail(Request& request, const ApiError& error) {
  const std::shared_ptr<Exchange> exchange = request.exchange;
  if (request.is_streaming) {
    append_stream_error(request.output, error);
    append_stream_end(request.output);
    flush_output(request);
    if (request.is_dropped) return;
    drop(request);
    exchange->finish();
    return;
  }
  drop(request);
  exchange->respond(make_error_response(error));
}

void LiveRequests::flush_output(Request& request) {
  if (!request.is_streaming || request.output.empty()) return;
  const std::string output = std::exchange(request.output, {});
  request.exchange->write(output);
}

void LiveRequests::drop(Request& request) {
  if (std::exchange(request.is_dropped, true)) return;
  for (const auto& choice : request.choices) {
    if (choice->is_done) continue;
    choice->is_done = true;
    choices_.erase(choice->id.value);
    engine_.cancel(choice->id);
    // A request that the engine refused has ended for none of the choices that it had not taken yet.
    if (choice->has_arrived) {
      metrics_.count_ending(engine_.failure().empty() ? ChoiceEnding::kAbort : ChoiceEnding::kError);
    }
  }
  --num_live_;
  const auto it = requests_.find(&request);
  dropped_.push_back(std::move(it->second));
  requests_.erase(it);
}

void LiveRequests::cancel_all() {
  std::vector<Request*> all;
  all.reserve(requests_.size());
  for (const auto& entry : requests_) all.push_back(entry.first);
  for (Request* request : all) fail(*request, engine_error(engine_.failure()));
  dropped_.clear();
}

}  // namespace ullage::serve
