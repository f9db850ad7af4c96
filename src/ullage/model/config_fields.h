// Typed look-ups in one object of config.json, with the bounds of shape_limits.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/base/json_fwd.h"
#include "ullage/base/result.h"

namespace ullage::model {

// Of one object of the file; keeps a reference to it. A key that is null counts as absent unless a comment says
// otherwise.
class ConfigFields {
 public:
  // `may_omit`: sizes that define the model may be left to the configuration class's defaults, as the sections of
  // multimodal models do. A file of its own must state them.
  ConfigFields(const Json& object, std::string where, bool may_omit);

  const Json& object() const { return object_; }
  const std::string& where() const { return where_; }
  std::string at(std::string_view key) const;
  bool may_omit() const { return may_omit_; }
  bool states(const char* key) const;  // the key is there, be it null
  bool has(const char* key) const;     // there and not null
  bool is_list(const char* key) const;
  int64_t num_entries(const char* key) const;  // of a list; 0 for anything else
  // The first of `keys` that has a value; the first of all when none has.
  const char* first_of(std::initializer_list<const char*> keys) const;

  // A size that the file must state, or (may_omit) the class's default when that is over 0. In [1, most].
  Result<int64_t> required(const char* key, int64_t most, int64_t class_default = 0) const;
  Result<int64_t> size(const char* key, int64_t fallback, int64_t most) const;   // in [1, most], the fallback too
  Result<int64_t> count(const char* key, int64_t fallback, int64_t most) const;  // in [0, most]
  Result<int64_t> integer(const char* key, int64_t fallback) const;
  Result<double> positive(const char* key, double fallback) const;
  Result<double> number(const char* key, double fallback) const;
  Result<bool> flag(const char* key, bool fallback) const;
  Result<std::string> text(const char* key, std::string_view fallback) const;
  // A list of integers in [least, most]. num_expected < 0: of any length up to 4096. REQUIRES: has(key).
  Result<std::vector<int64_t>> integers(const char* key, int64_t num_expected, int64_t least, int64_t most) const;
  // A list of strings, one a layer. REQUIRES: has(key).
  Result<std::vector<std::string>> texts(const char* key, int64_t num_expected) const;
  // An object inside this one. REQUIRES: has(key).
  Result<ConfigFields> section(const char* key, bool may_omit) const;

  Error missing(const char* key) const;
  Error invalid(std::string message, std::string_view key = "") const;      // kInvalidArgument
  Error unsupported(std::string message, std::string_view key = "") const;  // kUnsupported

 private:
  const Json& object_;
  std::string where_;
  bool may_omit_;
};

}  // namespace ullage::model
