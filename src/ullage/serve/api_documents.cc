#include "ullage/serve/api_documents.h"

#include "ullage/serve/json_text.h"

namespace ullage::serve {

std::string format_model(const ModelInfo& model, const std::string& id, int64_t created) {
  std::string out = "{\"id\":";
  append_json_string(out, id);
  out += ",\"object\":\"model\",\"created\":";
  append_json_int(out, created);
  // Load generators read `root` to load the tokenizer from it.
  out += ",\"owned_by\":\"ullage\",\"root\":";
  append_json_string(out, model.root);
  out += ",\"parent\":null,\"max_model_len\":";
  append_json_int(out, model.max_model_len);
  out += ",\"permission\":[]}";
  return out;
}

std::string format_models(const ModelInfo& model, int64_t created) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < model.names.size(); ++i) {
    if (i > 0) out += ',';
    out += format_model(model, model.names[i], created);
  }
  out += "]}";
  return out;
}

std::string format_tokens(std::span<const TokenId> tokens, int64_t max_model_len, const text::Tokenizer* names) {
  std::string out = "{\"count\":";
  append_json_int(out, static_cast<int64_t>(tokens.size()));
  out += ",\"max_model_len\":";
  append_json_int(out, max_model_len);
  out += ",\"tokens\":";
  append_json_ints(out, tokens);
  out += ",\"token_strs\":";
  if (names == nullptr) {
    out += "null}";
    return out;
  }
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names->token_name(tokens[i]));
  }
  out += "]}";
  return out;
}

std::string format_prompt(const std::string& text) {
  std::string out = "{\"prompt\":";
  append_json_string(out, text);
  out += '}';
  return out;
}

std::string format_version(const std::string& version) {
  std::string out = "{\"version\":";
  append_json_string(out, version);
  out += '}';
  return out;
}

std::string format_props(const ModelInfo& model, const std::string& version) {
  std::string out = "{\"default_generation_settings\":{\"n_ctx\":";
  append_json_int(out, model.max_model_len);
  out += "},\"total_slots\":";
  append_json_int(out, model.engine.max_num_seqs);
  out += ",\"model_alias\":";
  append_json_string(out, model.names.front());
  out += ",\"model_path\":";
  append_json_string(out, model.root);
  out += ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":";
  append_json_string(out, "ullage " + version);
  out += '}';
  return out;
}

std::string format_slots(const ModelInfo& model, int64_t num_live) {
  std::string out = "[";
  for (int64_t i = 0; i < model.engine.max_num_seqs; ++i) {
    out += i > 0 ? ",{\"id\":" : "{\"id\":";
    append_json_int(out, i);
    out += ",\"n_ctx\":";
    append_json_int(out, model.max_model_len);
    out += i < num_live ? ",\"is_processing\":true}" : ",\"is_processing\":false}";
  }
  out += ']';
  return out;
}

}  // namespace ullage::serve
