#include "ullage/api/serve_line.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ullage/api/plan_words.h"
#include "ullage/api/serve_flags.h"
#include "ullage/api/shell_words.h"
#include "ullage/base/json.h"
#include "ullage/base/quote.h"
#include "ullage/base/units.h"
#include "ullage/memory/engine_profile.h"

namespace ullage::api {
namespace {

constexpr int64_t kLlamaSlots = 4;  // llama-server without -np: four, in one cache
constexpr size_t kMaxNotes = 32;

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Where a server's own arguments begin, and whose they are.
struct Launcher {
  Server server = Server::kVllm;
  size_t first_argument = 0;
  std::string image_tag;  // "v0.11.0" of a container's image
};

// "vllm/vllm-openai:v0.11.0@sha256:..." -> "v0.11.0".
std::string tag_of(std::string_view image) {
  const std::string_view name = base_name(image.substr(0, image.find('@')));
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? std::string() : std::string(name.substr(colon + 1));
}

std::optional<Launcher> launcher_at(std::span<const std::string> words, size_t i) {
  const std::string_view name = base_name(words[i]);
  const std::string_view next = i + 1 < words.size() ? std::string_view(words[i + 1]) : std::string_view();
  if (name == "vllm" && next == "serve") return Launcher{Server::kVllm, i + 2, ""};
  if (name == "ullage" && (next == "serve" || next == "generate")) return Launcher{Server::kUllage, i + 2, ""};
  if (name == "sglang" && next == "serve") return Launcher{Server::kSglang, i + 2, ""};
  if (words[i].starts_with("vllm.entrypoints.")) return Launcher{Server::kVllm, i + 1, ""};
  if (words[i] == "sglang.launch_server") return Launcher{Server::kSglang, i + 1, ""};
  if (name == "llama-server" || name == "llama-cli" || name == "llama-server.exe") {
    return Launcher{Server::kLlamaCpp, i + 1, ""};
  }
  return std::nullopt;
}

// Images whose entry point is the server, so that no program's name follows.
std::optional<Launcher> image_at(std::span<const std::string> words, size_t i) {
  const std::string_view word = words[i];
  if (word.starts_with("-") || word.find('/') == std::string_view::npos) return std::nullopt;
  if (word.find("vllm-openai") != std::string_view::npos) return Launcher{Server::kVllm, i + 1, tag_of(word)};
  if (word.find("llama.cpp:server") != std::string_view::npos) return Launcher{Server::kLlamaCpp, i + 1, ""};
  return std::nullopt;
}

std::optional<Launcher> find_launcher(std::span<const std::string> words) {
  std::optional<Launcher> image;
  for (size_t i = 0; i < words.size(); ++i) {
    if (auto launcher = launcher_at(words, i)) {
      if (image && image->server == launcher->server) launcher->image_tag = image->image_tag;
      return launcher;
    }
    if (!image) image = image_at(words, i);
  }
  return image;
}

const char* policy_name(Server server) {
  switch (server) {
    case Server::kVllm:
      return "vllm";
    case Server::kSglang:
      return "sglang";
    case Server::kLlamaCpp:
      return "llama.cpp";
    case Server::kUllage:
      return "ullage";
  }
  return "vllm";
}

bool is_flag(std::string_view word) {
  return word.size() >= 2 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

// Reads the arguments from left to right into a ServeLine.
class LineReader {
 public:
  LineReader(Server server, std::span<const std::string> words, std::string_view where)
      : server_(server), words_(words), where_(where) {}

  Result<ServeLine> read() {
    line_.policy = policy_name(server_);
    while (i_ < words_.size()) {
      const std::string& word = words_[i_++];
      if (word == "--" || word.empty()) continue;
      if (!is_flag(word)) {
        take_positional(word);
        continue;
      }
      const size_t equals = word.find('=');
      flag_ = word.substr(0, equals);
      inline_value_ = equals == std::string::npos ? std::nullopt : std::optional(word.substr(equals + 1));
      ULLAGE_TRY_VOID(take_flag());
    }
    ULLAGE_TRY_VOID(finish());
    return std::move(line_);
  }

 private:
  std::string where() const { return where_.empty() ? flag_ : fmt::format("{}: {}", where_, flag_); }

  void note(std::string text) {
    if (line_.notes.size() < kMaxNotes) line_.notes.push_back(std::move(text));
  }

  void take_positional(const std::string& word) {
    const bool takes_model = server_ == Server::kVllm || server_ == Server::kUllage;
    if (takes_model && line_.model.empty()) {
      line_.model = word;
    } else {
      note(fmt::format("{} was left out: no flag comes before it", quote(word)));
    }
  }

  // The flag's value: behind '=', or the next word.
  Result<std::string> take_value() {
    if (inline_value_) return *inline_value_;
    if (i_ < words_.size() && !is_flag(words_[i_])) return words_[i_++];
    return Error{ErrorCode::kInvalidArgument, "has no value; write one behind it", where()};
  }

  void skip_words() {
    while (i_ < words_.size() && !is_flag(words_[i_])) ++i_;
  }

  Result<void> take_flag() {
    if (const ServerFlag* known = find_server_flag(server_, flag_)) return take_known(*known);
    if (flag_.starts_with("-O") && flag_.size() > 2 && server_ == Server::kVllm) return set_level(flag_.substr(2));
    const Lever* lever = server_ == Server::kLlamaCpp ? nullptr : find_lever(flag_);
    if (lever != nullptr && flag_.starts_with("--") && is_engine_lever(*lever)) return set_lever(*lever);
    const bool has_value = inline_value_ || (i_ < words_.size() && !is_flag(words_[i_]));
    if (has_value && !inline_value_) ++i_;
    note(fmt::format("{} is not known here and was left out", quote(flag_)));
    return {};
  }

  static bool is_engine_lever(const Lever& lever) {
    return lever.group == "Memory" || lever.group == "Engine" || lever.group == "Device";
  }

  Result<void> set_lever(const Lever& lever) {
    std::string text;
    if (lever.kind == LeverKind::kFlag) {
      text = inline_value_.value_or("true");
    } else {
      ULLAGE_TRY(text, take_value());
    }
    if (text == "auto" || (text == "-1" && lever.key == "max_model_len")) return {};  // as if it were not there
    return set_lever_text(lever, text);
  }

  Result<void> set_lever_text(const Lever& lever, const std::string& text) {
    ULLAGE_TRY(LeverValue value, parse_lever(lever, text, where()));
    line_.levers.set(LeverSetting{&lever, std::move(value), where()});
    return {};
  }
  Result<void> set_lever_text(std::string_view key, const std::string& text) {
    return set_lever_text(*find_lever(key), text);
  }

  Result<void> take_known(const ServerFlag& flag) {
    switch (flag.use) {
      case FlagUse::kLever:
        return set_lever(*find_lever(flag.target));
      case FlagUse::kSetFlag:
        return set_lever_text(flag.target, inline_value_.value_or("true"));
      case FlagUse::kClearFlag:
        return set_lever_text(flag.target, "false");
      case FlagUse::kSkipNone:
        return {};
      case FlagUse::kSkipMany:
        skip_words();
        return {};
      case FlagUse::kSkipMaybe:
        if (!inline_value_ && i_ < words_.size() && !is_flag(words_[i_])) ++i_;
        return {};
      case FlagUse::kNoteNone:
        note(fmt::format("{}: {}", flag_, flag.target));
        return {};
      case FlagUse::kEnableLora:
        has_lora_ = true;
        return {};
      case FlagUse::kUnified:
        is_unified_ = true;
        return {};
      default:
        break;
    }
    ULLAGE_TRY(const std::string value, take_value());
    return take_known_value(flag, value);
  }

  Result<void> take_known_value(const ServerFlag& flag, const std::string& value) {
    switch (flag.use) {
      case FlagUse::kModel:
        line_.model = value;
        return {};
      case FlagUse::kNote:
        note(fmt::format("{}: {}", flag_, flag.target));
        return {};
      case FlagUse::kQuantization:
        return set_quantization(value);
      case FlagUse::kSpeculativeConfig:
        return read_speculative_config(value);
      case FlagUse::kCompilationConfig:
        return read_compilation_config(value);
      case FlagUse::kCompilationLevel:
        return set_level(value);
      case FlagUse::kContext: {
        ULLAGE_TRY(context_, parse_count(value, where()));
        return {};
      }
      case FlagUse::kSlots: {
        if (value == "-1") return {};
        ULLAGE_TRY(slots_, parse_count(value, where()));
        if (*slots_ >= 1 && *slots_ <= 65536) return {};
        return Error{ErrorCode::kInvalidArgument, fmt::format("is {}; give 1 to 65,536", value), where()};
      }
      case FlagUse::kGpuLayers:
        return set_gpu_layers(value);
      case FlagUse::kTotalTokens: {
        ULLAGE_TRY(total_tokens_, parse_count(value, where()));
        return {};
      }
      default:
        return {};
    }
  }

  // Most names say how the checkpoint is stored, which it says itself; fp8 also quantises a plain one while it loads.
  Result<void> set_quantization(const std::string& method) {
    if (method == "fp8" || method == "w8a8_fp8" || method == "ptpc_fp8") return set_lever_text("weights", "fp8");
    if (method == "w8a8_int8") return set_lever_text("weights", "int8");
    if (method == "bitsandbytes") return set_lever_text("weights", "int4");
    return {};
  }

  Result<void> set_level(const std::string& level) {
    if (level == "0" || level == ".mode=0" || level == ".level=0") return set_lever_text("enforce_eager", "true");
    return {};
  }

  Result<void> read_speculative_config(const std::string& text) {
    ULLAGE_TRY(const Json config, parse_json(text, where()));
    if (!config.is_object()) return Error{ErrorCode::kInvalidArgument, "is not a JSON object", where()};
    ULLAGE_TRY(const int64_t tokens, get_int(config, "num_speculative_tokens", 0, where()));
    ULLAGE_TRY(const std::string method, get_string(config, "method", "", where()));
    ULLAGE_TRY(const std::string draft, get_string(config, "model", "", where()));
    if (method == "ngram" || method == "suffix" || tokens == 0) return {};  // nothing is loaded
    if (!draft.empty()) {
      note(fmt::format("{}: the draft model {} is not counted; the model's own draft layers are", flag_, quote(draft)));
    }
    return set_lever_text("speculative_tokens", fmt::format("{}", tokens));
  }

  Result<void> read_compilation_config(const std::string& text) {
    if (!text.starts_with("{")) return set_level(text);
    ULLAGE_TRY(const Json config, parse_json(text, where()));
    const auto mode = config.find("cudagraph_mode");
    if (mode != config.end() && *mode == "NONE") return set_lever_text("enforce_eager", "true");
    return {};
  }

  Result<void> set_gpu_layers(const std::string& value) {
    if (value == "all" || value == "auto" || value == "-1") return {};
    ULLAGE_TRY(const int64_t layers, parse_count(value, where()));
    if (layers < 99) {
      note(fmt::format("{} {}: layers left on the CPU are not modelled; the plan puts every layer on the device", flag_,
                       layers));
    }
    return {};
  }

  // What several flags decide together.
  Result<void> finish() {
    flag_ = "--enable-lora";
    const bool has_num_loras = line_.levers.find("max_loras") != nullptr;
    if (has_lora_ && !has_num_loras) ULLAGE_TRY_VOID(set_lever_text("max_loras", "1"));
    if (total_tokens_) {
      flag_ = "--max-total-tokens";
      const LeverSetting* page = line_.levers.find("block_size");
      const int64_t block = page != nullptr ? page->value.integer : 1;
      ULLAGE_TRY_VOID(set_lever_text("num_blocks", fmt::format("{}", *total_tokens_ / block)));
    }
    if (server_ == Server::kLlamaCpp) ULLAGE_TRY_VOID(finish_llama_cpp());
    return {};
  }

  // -c is the tokens of all slots together; each has an equal share, unless the cache is unified (the default without
  // -np), where one request may have it all.
  Result<void> finish_llama_cpp() {
    const int64_t slots = slots_.value_or(kLlamaSlots);
    const bool is_unified = is_unified_ || !slots_;
    flag_ = "-np";
    ULLAGE_TRY_VOID(set_lever_text("max_num_seqs", fmt::format("{}", slots)));
    if (!context_ || *context_ == 0) return {};
    flag_ = "-c";
    ULLAGE_TRY_VOID(set_lever_text("num_blocks", fmt::format("{}", *context_)));  // its blocks are cells of one token
    const int64_t per_slot = is_unified ? *context_ : *context_ / slots;
    if (!is_unified && slots > 1) {
      note(fmt::format("-c {} is divided over {} slots: {} tokens a request", *context_, slots,
                       format_thousands(per_slot)));
    }
    return set_lever_text("max_model_len", fmt::format("{}", per_slot));
  }

  Server server_;
  std::span<const std::string> words_;
  std::string_view where_;
  size_t i_ = 0;
  std::string flag_;
  std::optional<std::string> inline_value_;
  bool has_lora_ = false;
  bool is_unified_ = false;
  std::optional<int64_t> context_;
  std::optional<int64_t> slots_;
  std::optional<int64_t> total_tokens_;
  ServeLine line_;
};

// "v0.11.0" -> "vllm-0.11.0", when there is a profile for it.
void use_image_version(const std::string& tag, ServeLine* line) {
  if (tag.size() < 2 || tag[0] != 'v' || tag[1] < '0' || tag[1] > '9') return;
  const std::string name = fmt::format("vllm-{}", tag.substr(1));
  if (memory::find_engine_profile(name)) {
    line->policy = name;
  } else {
    line->notes.push_back(fmt::format("there are no rules for version {}; the newest are used", quote(tag)));
  }
}

}  // namespace

bool is_serve_line(std::span<const std::string> words) { return find_launcher(words).has_value(); }

Result<ServeLine> parse_serve_words(std::span<const std::string> words, std::string_view where) {
  const std::optional<Launcher> launcher = find_launcher(words);
  if (!launcher) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} starts no server that is known here; give a line with `vllm serve`, `python -m "
                             "vllm.entrypoints.openai.api_server`, `python -m sglang.launch_server`, `llama-server` or "
                             "`ullage serve`",
                             words.empty() ? "an empty line" : quote(words.front())),
                 std::string(where)};
  }
  ULLAGE_TRY(ServeLine line, LineReader(launcher->server, words.subspan(launcher->first_argument), where).read());
  if (line.model.empty()) {
    return Error{ErrorCode::kInvalidArgument, "names no model; the server's line needs one, too", std::string(where)};
  }
  use_image_version(launcher->image_tag, &line);
  return line;
}

Result<ServeLine> parse_serve_line(std::string_view text, std::string_view where) {
  ULLAGE_TRY(const std::vector<std::string> words, split_shell_words(text, where));
  return parse_serve_words(words, where);
}

}  // namespace ullage::api
