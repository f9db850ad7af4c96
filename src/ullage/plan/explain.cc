#include "ullage/plan/explain.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "ullage/base/ascii.h"
#include "ullage/base/saturating.h"

namespace ullage::plan {
namespace {

// One lever: whether two scenarios differ in it, in words, and how it is moved from one to the other.
struct Lever {
  const char* name;
  std::string (*change)(const Scenario& before, const Scenario& after);  // "" = alike
  void (*apply)(Scenario& s, const Scenario& after);
};

std::string arrow(const std::string& before, const std::string& after) {
  return before == after ? std::string() : fmt::format("{} -> {}", before, after);
}
std::string arrow(int64_t before, int64_t after) {
  const auto text = [](int64_t n) { return n == 0 ? std::string("default") : format_thousands(n); };
  return before == after ? std::string() : fmt::format("{} -> {}", text(before), text(after));
}
std::string arrow(double before, double after) {
  if (before == after) return {};
  const auto text = [](double x) { return x == 0 ? std::string("default") : fmt::format("{:g}", x); };
  return fmt::format("{} -> {}", text(before), text(after));
}
std::string arrow(bool before, bool after) {
  return before == after ? std::string() : fmt::format("{} -> {}", before ? "on" : "off", after ? "on" : "off");
}
std::string arrow(const std::optional<Bytes>& before, const std::optional<Bytes>& after) {
  const auto text = [](const std::optional<Bytes>& b) { return b ? format_bytes(*b) : std::string("by rule"); };
  return before == after ? std::string() : fmt::format("{} -> {}", text(before), text(after));
}
std::string kv_text(const Scenario& s) {
  const Result<model::KvDType> dtype = resolve_kv_dtype(s);
  return dtype ? model::kv_dtype_name(*dtype) : "auto";
}
std::string weights_text(const Scenario& s) {
  return s.weight_format.empty() ? std::string(weight_precision_name(s.weights)) : s.weight_format;
}
std::string dtype_text(const Scenario& s) { return s.dtype ? to_lower(model::info(*s.dtype).name) : "auto"; }
std::string division_text(const Scenario& s) {
  const model::Parallelism& p = s.parallelism;
  std::string out = fmt::format("TP {}", p.tensor);
  if (p.pipeline > 1) out += fmt::format(" PP {}", p.pipeline);
  if (p.data > 1) out += fmt::format(" DP {}", p.data);
  if (p.has_expert_parallel) out += " EP";
  if (p.decode_context > 1) out += fmt::format(" DCP {}", p.decode_context);
  return out;
}
std::string heads_text(const Scenario& s) {
  if (s.force_mha) return "as many as heads";
  return s.num_kv_heads > 0 ? format_thousands(s.num_kv_heads) : std::string("the model's");
}
std::string request_text(const Scenario& s) {
  return fmt::format("{:g} + {:g} tokens", s.prompt_tokens, s.output_tokens);
}
std::string p95_text(const Scenario& s) { return fmt::format("{:g} + {:g}", s.p95_prompt_tokens, s.p95_output_tokens); }
std::string efficiency_text(const Scenario& s) {
  if (!s.efficiency) return "calibrated";
  return fmt::format("bandwidth {:g}, matmul {:g}", s.efficiency->bandwidth, s.efficiency->matmul);
}

std::string model_name(const model::ModelShape& shape) {
  std::string out = shape.name.empty() ? shape.architecture : shape.name;
  if (!shape.quantization.method.empty()) out += " " + shape.quantization.method;
  return out;
}
// Two readings of one file are one model.
bool is_same_model(const model::ModelShape& a, const model::ModelShape& b) {
  return &a == &b ||
         (model_name(a) == model_name(b) && a.layers.size() == b.layers.size() && a.hidden_size == b.hidden_size &&
          a.vocab_size == b.vocab_size && a.weight_dtype == b.weight_dtype &&
          model::count_parameters(a).total() == model::count_parameters(b).total());
}

using S = Scenario;
// The order in which they are moved.
constexpr Lever kLevers[] = {
    {"model",
     [](const S& a, const S& b) {
       if (is_same_model(*a.shape, *b.shape)) return std::string();
       return fmt::format("{} -> {}", model_name(*a.shape), model_name(*b.shape));
     },
     [](S& s, const S& b) { s.shape = b.shape; }},
    {"KV heads", [](const S& a, const S& b) { return arrow(heads_text(a), heads_text(b)); },
     [](S& s, const S& b) {
       s.force_mha = b.force_mha;
       s.num_kv_heads = b.num_kv_heads;
     }},
    {"dtype", [](const S& a, const S& b) { return arrow(dtype_text(a), dtype_text(b)); },
     [](S& s, const S& b) { s.dtype = b.dtype; }},
    {"weights", [](const S& a, const S& b) { return arrow(weights_text(a), weights_text(b)); },
     [](S& s, const S& b) {
       s.weights = b.weights;
       s.weight_format = b.weight_format;
     }},
    {"device",
     [](const S& a, const S& b) {
       if (a.device == b.device || *a.device == *b.device) return std::string();
       return fmt::format("{} -> {}", a.device->name, b.device->name);
     },
     [](S& s, const S& b) { s.device = b.device; }},
    {"division", [](const S& a, const S& b) { return arrow(division_text(a), division_text(b)); },
     [](S& s, const S& b) { s.parallelism = b.parallelism; }},
    {"engine", [](const S& a, const S& b) { return arrow(std::string(a.profile->name), std::string(b.profile->name)); },
     [](S& s, const S& b) { s.profile = b.profile; }},
    {"utilisation", [](const S& a, const S& b) { return arrow(a.gpu_memory_utilization, b.gpu_memory_utilization); },
     [](S& s, const S& b) { s.gpu_memory_utilization = b.gpu_memory_utilization; }},
    {"KV memory", [](const S& a, const S& b) { return arrow(a.kv_memory, b.kv_memory); },
     [](S& s, const S& b) { s.kv_memory = b.kv_memory; }},
    {"blocks override",
     [](const S& a, const S& b) { return arrow(a.num_blocks.value_or(0), b.num_blocks.value_or(0)); },
     [](S& s, const S& b) { s.num_blocks = b.num_blocks; }},
    {"activation reserve", [](const S& a, const S& b) { return arrow(a.activation_reserve, b.activation_reserve); },
     [](S& s, const S& b) { s.activation_reserve = b.activation_reserve; }},
    {"graphs", [](const S& a, const S& b) { return arrow(a.has_graphs, b.has_graphs); },
     [](S& s, const S& b) { s.has_graphs = b.has_graphs; }},
    {"max_num_seqs", [](const S& a, const S& b) { return arrow(a.max_num_seqs, b.max_num_seqs); },
     [](S& s, const S& b) { s.max_num_seqs = b.max_num_seqs; }},
    {"max_num_batched_tokens",
     [](const S& a, const S& b) { return arrow(a.max_num_batched_tokens, b.max_num_batched_tokens); },
     [](S& s, const S& b) { s.max_num_batched_tokens = b.max_num_batched_tokens; }},
    {"adapters",
     [](const S& a, const S& b) {
       return arrow(fmt::format("{} x rank {}", a.adapters.max_loras, a.adapters.max_rank),
                    fmt::format("{} x rank {}", b.adapters.max_loras, b.adapters.max_rank));
     },
     [](S& s, const S& b) { s.adapters = b.adapters; }},
    {"speculation",
     [](const S& a, const S& b) {
       return arrow(fmt::format("{} tokens at {:g}", a.num_speculative_tokens, a.acceptance_rate),
                    fmt::format("{} tokens at {:g}", b.num_speculative_tokens, b.acceptance_rate));
     },
     [](S& s, const S& b) {
       s.num_speculative_tokens = b.num_speculative_tokens;
       s.acceptance_rate = b.acceptance_rate;
     }},
    {"KV dtype", [](const S& a, const S& b) { return arrow(kv_text(a), kv_text(b)); },
     [](S& s, const S& b) { s.kv_dtype = b.kv_dtype; }},
    {"block size", [](const S& a, const S& b) { return arrow(a.block_size, b.block_size); },
     [](S& s, const S& b) { s.block_size = b.block_size; }},
    {"prefix caching", [](const S& a, const S& b) { return arrow(a.has_prefix_caching, b.has_prefix_caching); },
     [](S& s, const S& b) { s.has_prefix_caching = b.has_prefix_caching; }},
    {"hybrid layout", [](const S& a, const S& b) { return arrow(!a.is_hybrid_disabled, !b.is_hybrid_disabled); },
     [](S& s, const S& b) { s.is_hybrid_disabled = b.is_hybrid_disabled; }},
    {"max_model_len", [](const S& a, const S& b) { return arrow(a.max_model_len, b.max_model_len); },
     [](S& s, const S& b) { s.max_model_len = b.max_model_len; }},
    {"requests' length", [](const S& a, const S& b) { return arrow(request_text(a), request_text(b)); },
     [](S& s, const S& b) {
       s.prompt_tokens = b.prompt_tokens;
       s.output_tokens = b.output_tokens;
     }},
    {"p95 length", [](const S& a, const S& b) { return arrow(p95_text(a), p95_text(b)); },
     [](S& s, const S& b) {
       s.p95_prompt_tokens = b.p95_prompt_tokens;
       s.p95_output_tokens = b.p95_output_tokens;
     }},
    {"shared prefix", [](const S& a, const S& b) { return arrow(a.shared_prefix_tokens, b.shared_prefix_tokens); },
     [](S& s, const S& b) { s.shared_prefix_tokens = b.shared_prefix_tokens; }},
    {"concurrency", [](const S& a, const S& b) { return arrow(a.concurrency, b.concurrency); },
     [](S& s, const S& b) { s.concurrency = b.concurrency; }},
    {"efficiency", [](const S& a, const S& b) { return arrow(efficiency_text(a), efficiency_text(b)); },
     [](S& s, const S& b) { s.efficiency = b.efficiency; }},
};

int64_t tokens_of(const Scenario& s, const Evaluation& e) {
  return saturating_mul(e.capacity.usable_tokens, s.parallelism.data);
}

WaterfallTerm difference(std::string name, std::string change, const Scenario& sa, const Evaluation& a,
                         const Scenario& sb, const Evaluation& b) {
  WaterfallTerm out;
  out.name = std::move(name);
  out.change = std::move(change);
  out.tokens = tokens_of(sb, b) - tokens_of(sa, a);
  out.users = b.capacity.total_expected_requests - a.capacity.total_expected_requests;
  out.itl_seconds = b.timing.itl_seconds - a.timing.itl_seconds;
  out.ttft_seconds = b.timing.ttft_seconds - a.timing.ttft_seconds;
  out.output_tokens_per_second = b.timing.output_tokens_per_second - a.timing.output_tokens_per_second;
  return out;
}

struct BudgetMove {
  const char* name;
  Bytes before;
  Bytes after;
  bool adds = false;  // to the pool
};

// An engine brings another value for several terms of the budget: the pool is moved from one to the other term by term,
// and what is left is its way of laying blocks out and of printing.
Result<void> split_engine(Planner& planner, const Scenario& sa, const Evaluation& a, const Scenario& sb,
                          const Evaluation& b, std::vector<WaterfallTerm>& out) {
  const BudgetNumbers& x = a.budget;
  const BudgetNumbers& y = b.budget;
  const auto graphs = [](const BudgetNumbers& n) { return n.are_graphs_subtracted ? n.graphs.bytes : Bytes(0); };
  const BudgetMove moves[] = {
      {"granted memory", x.requested, y.requested, true},
      {"weights", x.weights.bytes, y.weights.bytes},
      {"activations", x.activations.bytes, y.activations.bytes},
      {"graphs", graphs(x), graphs(y)},
      {"runtime", x.runtime.bytes, y.runtime.bytes},
  };
  Scenario s = sa;
  Evaluation before = a;
  int64_t pool = x.kv_pool.bytes.value;
  for (const BudgetMove& move : moves) {
    if (move.before == move.after) continue;
    const int64_t delta = (move.after - move.before).value;
    pool += move.adds ? delta : -delta;
    if (pool <= 0) break;  // what follows is told as one
    const Scenario previous = s;
    s.kv_memory = Bytes(pool);
    ULLAGE_TRY(Evaluation here, planner.evaluate(s));
    out.push_back(difference(move.name, fmt::format("{} -> {}", format_bytes(move.before), format_bytes(move.after)),
                             previous, before, s, here));
    before = std::move(here);
  }
  out.push_back(difference("engine's rules", arrow(std::string(sa.profile->name), std::string(sb.profile->name)), s,
                           before, sb, b));
  return {};
}

std::string signed_thousands(int64_t n) { return (n > 0 ? "+" : "") + format_thousands(n); }

std::string sentence_of(const Scenario& sa, const Scenario& sb, const Explanation& e) {
  const int64_t a = tokens_of(sa, e.before);
  const int64_t b = tokens_of(sb, e.after);
  const int64_t users = e.after.capacity.total_expected_requests - e.before.capacity.total_expected_requests;
  if (a == b && users == 0) {
    const double x = e.before.timing.output_tokens_per_second;
    const double y = e.after.timing.output_tokens_per_second;
    if (x == y) return "Both hold the same and are as fast.";
    return fmt::format("Both hold the same {} tokens; B gives {:.0f} output tokens a second, A {:.0f}.",
                       format_thousands(a), y, x);
  }
  // The term that moved most, of whichever count moved.
  const bool by_tokens = a != b;
  const auto size = [&](const WaterfallTerm& t) {
    const int64_t n = by_tokens ? t.tokens : t.users;
    return n < 0 ? -n : n;
  };
  const auto largest =
      std::max_element(e.terms.begin(), e.terms.end(), [&](const auto& p, const auto& q) { return size(p) < size(q); });
  std::string out;
  if (by_tokens) {
    out = fmt::format("B holds {} {} tokens than A", format_thousands(b > a ? b - a : a - b), b > a ? "more" : "fewer");
    if (a > 0) {
      out += fmt::format(" ({:+.0f} %)", 100 * (static_cast<double>(b) / static_cast<double>(a) - 1));
    }
  } else {
    out = fmt::format("B holds as many tokens as A and {} {} users", users > 0 ? users : -users,
                      users > 0 ? "more" : "fewer");
  }
  if (largest != e.terms.end()) {
    const int64_t n = by_tokens ? largest->tokens : largest->users;
    const char* share = e.terms.size() == 1 ? "all of it" : "most of it";
    out += fmt::format(", {} from {} ({}: {} {})", share, largest->name, largest->change, signed_thousands(n),
                       by_tokens ? "tokens" : "users");
  }
  if (by_tokens && users != 0) {
    out += fmt::format(": {} {} users", users > 0 ? users : -users, users > 0 ? "more" : "fewer");
  }
  return out + ".";
}

}  // namespace

Result<Explanation> explain(Planner& planner, const Scenario& before, const Scenario& after) {
  Explanation out;
  ULLAGE_TRY(out.before, planner.evaluate(before));
  ULLAGE_TRY(out.after, planner.evaluate(after));
  Scenario at = before;  // where the last told term ended
  Evaluation told = out.before;
  Scenario moved = before;
  std::string names;
  std::string changes;
  out.terms.reserve(std::size(kLevers) + 8);
  for (const Lever& lever : kLevers) {
    std::string change = lever.change(moved, after);
    // "auto" may mean the same and still be another lever: it is moved all the same, and told only when it shows.
    lever.apply(moved, after);
    if (change.empty() && names.empty()) continue;
    if (!change.empty()) {
      names += (names.empty() ? "" : " and ") + std::string(lever.name);
      changes += (changes.empty() ? "" : ", ") + change;
    }
    // A step on the way may be illegal by itself (a prompt that max_model_len does not allow yet): it is told with the
    // next ones.
    Result<Evaluation> here = planner.evaluate(moved);
    if (!here) continue;
    if (names == "engine" && told.fit == Fit::kFits && !at.kv_memory && !at.num_blocks) {
      ULLAGE_TRY_VOID(split_engine(planner, at, told, moved, *here, out.terms));
    } else {
      out.terms.push_back(difference(std::move(names), std::move(changes), at, told, moved, *here));
    }
    names.clear();
    changes.clear();
    at = moved;
    told = *std::move(here);
  }
  // Whatever moved without a name (an "auto" that was written out) and the difference it made.
  WaterfallTerm rest = difference("the rest", "", at, told, after, out.after);
  if (rest.tokens != 0 || rest.users != 0 || rest.itl_seconds != 0 || rest.ttft_seconds != 0) {
    out.terms.push_back(std::move(rest));
  }
  out.sentence = sentence_of(before, after, out);
  return out;
}

}  // namespace ullage::plan
