// WebAssembly (wasm32-wasi) has no threads: there, the caller runs Engine::step itself.
#if !defined(__wasi__)

#include "ullage/engine/engine_thread.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace ullage::engine {
namespace {

struct SubmitCommand {
  sched::RequestParams params;
};
struct CancelCommand {
  RequestId id;
};
struct FinishCommand {
  RequestId id;
  sched::FinishReason reason;
};
struct PostCommand {
  std::function<void(Engine&)> call;
};
using Command = std::variant<SubmitCommand, CancelCommand, FinishCommand, PostCommand>;

Nanos steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct EngineThread::State {
  State(Engine& the_engine, int64_t the_max_commands) : engine(the_engine), max_commands(the_max_commands) {}

  void run();
  // Waits for commands or work. False when it is time to end: nothing is taken in any more, and nothing is queued.
  bool wait(std::deque<Command>& batch);
  void apply(Command& command);
  bool has_live() const { return engine.num_running() + engine.num_waiting() > 0; }
  bool enqueue(Command command);

  Engine& engine;
  const int64_t max_commands;

  std::mutex mutex;
  std::condition_variable wake;       // commands, or is_stopping
  std::condition_variable quiescent;  // nothing is live and nothing queued
  std::deque<Command> commands;       // guarded by mutex
  int64_t num_submits = 0;            // guarded by mutex: submits among commands
  bool is_draining = false;           // guarded by mutex
  bool is_stopping = false;           // guarded by mutex
  bool has_ended = false;             // guarded by mutex: the thread takes no more commands
  bool is_quiescent = true;           // guarded by mutex
  std::string failure;                // guarded by mutex

  std::atomic<bool> has_failed{false};
  std::atomic<bool> is_waiting{false};
  std::atomic<Nanos> heartbeat{steady_now()};

  std::mutex join_mutex;  // one stop() joins, others wait for it
  std::jthread thread;
};

bool EngineThread::State::enqueue(Command command) {
  {
    const std::lock_guard lock(mutex);
    if (has_ended) return false;
    commands.push_back(std::move(command));
    is_quiescent = false;
  }
  wake.notify_one();
  return true;
}

bool EngineThread::State::wait(std::deque<Command>& batch) {
  std::unique_lock lock(mutex);
  if (commands.empty() && !engine.has_work()) {
    is_quiescent = true;
    quiescent.notify_all();
    is_waiting.store(true, std::memory_order_relaxed);
    wake.wait(lock, [&] { return !commands.empty() || is_stopping; });
    is_waiting.store(false, std::memory_order_relaxed);
  }
  heartbeat.store(steady_now(), std::memory_order_relaxed);
  batch.swap(commands);
  num_submits = 0;
  if (!is_stopping) return true;
  // Requests that were accepted into the queue are taken in, and cancelled with the rest: each gets its end.
  has_ended = batch.empty() && !has_live();
  return !has_ended;
}

void EngineThread::State::apply(Command& command) {
  if (auto* submit = std::get_if<SubmitCommand>(&command)) {
    (void)engine.add_request(std::move(submit->params));  // a refusal is told by its event
  } else if (const auto* cancel = std::get_if<CancelCommand>(&command)) {
    engine.cancel(cancel->id);
  } else if (const auto* finish = std::get_if<FinishCommand>(&command)) {
    engine.finish(finish->id, finish->reason);
  } else if (auto* post = std::get_if<PostCommand>(&command)) {
    post->call(engine);
  }
}

void EngineThread::State::run() {
  std::deque<Command> batch;
  while (wait(batch)) {
    for (Command& command : batch) apply(command);
    batch.clear();
    bool must_end = false;
    {
      const std::lock_guard lock(mutex);
      must_end = is_stopping;
    }
    if (must_end) {
      engine.cancel_all();
    } else if (engine.has_work()) {
      if (const Result<bool> stepped = engine.step(); !stepped) {
        const std::lock_guard lock(mutex);
        failure = stepped.error().to_string();
        has_failed.store(true, std::memory_order_release);
      }
    }
    heartbeat.store(steady_now(), std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex);
  is_quiescent = true;
  quiescent.notify_all();
}

EngineThread::EngineThread(Engine& engine, int64_t max_commands)
    : state_(std::make_unique<State>(engine, max_commands)) {
  state_->thread = std::jthread([state = state_.get()] { state->run(); });
}

EngineThread::~EngineThread() { stop(); }

Result<void> EngineThread::submit(sched::RequestParams params) {
  State& s = *state_;
  if (s.has_failed.load(std::memory_order_acquire)) {
    return Error{ErrorCode::kUnavailable, "the engine has failed: " + failure(), "engine"};
  }
  {
    const std::lock_guard lock(s.mutex);
    if (s.is_draining || s.is_stopping) {
      return Error{ErrorCode::kUnavailable, "the server is shutting down and takes no new requests", "engine"};
    }
    if (s.num_submits >= s.max_commands) {
      return Error{
          ErrorCode::kUnavailable,
          "the engine's command queue is full (" + std::to_string(s.max_commands) + " requests); try again later",
          "engine"};
    }
    s.commands.push_back(SubmitCommand{std::move(params)});
    ++s.num_submits;
    s.is_quiescent = false;
  }
  s.wake.notify_one();
  return {};
}

void EngineThread::cancel(RequestId id) { state_->enqueue(CancelCommand{id}); }

void EngineThread::finish(RequestId id, sched::FinishReason reason) { state_->enqueue(FinishCommand{id, reason}); }

bool EngineThread::post(std::function<void(Engine&)> call) { return state_->enqueue(PostCommand{std::move(call)}); }

bool EngineThread::drain(Nanos timeout) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.is_draining = true;
  return s.quiescent.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return s.is_quiescent; });
}

void EngineThread::stop() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    s.is_stopping = true;
  }
  s.wake.notify_one();
  const std::lock_guard join_lock(s.join_mutex);
  if (s.thread.joinable()) s.thread.join();
}

bool EngineThread::has_failed() const { return state_->has_failed.load(std::memory_order_acquire); }

std::string EngineThread::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failure;
}

Nanos EngineThread::since_heartbeat() const {
  if (state_->is_waiting.load(std::memory_order_relaxed)) return 0;
  return steady_now() - state_->heartbeat.load(std::memory_order_relaxed);
}

}  // namespace ullage::engine

#endif  // !defined(__wasi__)
