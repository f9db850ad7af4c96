#include "ullage/model/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ullage/base/mapped_file.h"
#include "ullage/model/config.h"
#include "ullage/model/models_json.h"

namespace ullage::model {
namespace {

TEST(ModelCatalogue, IsTheFileInData) {
  const auto text = read_text_file(ULLAGE_SOURCE_DIR "/data/models.json", 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_TRUE(*text == kModelsJson) << "build again: the library holds another text than the file";
  EXPECT_LT(text->size(), 200u << 10) << "it is part of every binary and of the page";
}

TEST(ModelCatalogue, NamesAreUniqueAndSourced) {
  std::set<std::string> ids;
  const std::vector<CatalogueModel> models = catalogue_models();
  for (const CatalogueModel& model : models) {
    EXPECT_TRUE(ids.insert(model.id).second) << model.id;
    EXPECT_FALSE(model.source.empty()) << model.id;
    std::vector<std::string> names = model.aliases;
    names.push_back(model.id);
    names.push_back(model.id.substr(model.id.find('/') + 1));
    for (const std::string& name : names) {
      const auto found = find_catalogue_model(name, models);
      ASSERT_TRUE(found) << name;
      EXPECT_EQ(found->id, model.id) << name << " names two models";
    }
  }
  EXPECT_GE(models.size(), 120u);
}

// Bytes a token in bf16 of every layer that keeps keys and values for each token, windows as if they never filled.
int64_t attention_bytes_per_token(const ModelShape& shape) {
  int64_t elements = 0;
  for (const LayerShape& layer : shape.layers) {
    for (const KvSpec& spec : kv_specs(layer)) {
      if (const auto* full = std::get_if<FullAttentionKv>(&spec)) {
        elements += full->num_kv_heads * (full->key_dim + full->value_dim);
      } else if (const auto* window = std::get_if<SlidingWindowKv>(&spec)) {
        elements += window->kv.num_kv_heads * (window->kv.key_dim + window->kv.value_dim);
      } else if (const auto* chunk = std::get_if<ChunkedLocalKv>(&spec)) {
        elements += chunk->kv.num_kv_heads * (chunk->kv.key_dim + chunk->kv.value_dim);
      } else if (const auto* latent = std::get_if<LatentKv>(&spec)) {
        elements += latent->latent_dim + latent->rope_dim;
      }
    }
  }
  return elements * 2;
}

// Listed by name all the same, so that asking for one says what it is and why it is not planned.
bool is_refused_family(const CatalogueModel& model) {
  return model.config.find("\"deepseek_v4\"") != std::string::npos;
}

// What the count leaves out, "" when nothing.
std::string missing_part(const CatalogueModel& model, const ModelShape& shape) {
  const std::vector<WeightMatrix> matrices = weight_matrices(shape);
  const auto has_role = [&](WeightRole role) {
    return std::any_of(matrices.begin(), matrices.end(),
                       [&](const WeightMatrix& matrix) { return matrix.role == role; });
  };
  const bool has_experts = std::any_of(shape.layers.begin(), shape.layers.end(), [](const LayerShape& layer) {
    return std::holds_alternative<MoeFfn>(layer.ffn);
  });
  if (has_experts && !has_role(WeightRole::kExperts)) return "experts";
  if (model.config.find("vision_config") != std::string::npos && !has_role(WeightRole::kOther)) return "vision tower";
  return "";
}

TEST(ModelCatalogue, EveryEntryIsAModelOfTheStatedSize) {
  int num_with_parameters = 0;
  int num_with_kv = 0;
  std::set<std::string> unfinished;
  for (const CatalogueModel& model : catalogue_models()) {
    const auto shape = catalogue_shape(model);
    if (is_refused_family(model)) {
      ASSERT_FALSE(shape) << model.id;
      EXPECT_EQ(shape.error().code, ErrorCode::kUnsupported) << model.id;
      EXPECT_NE(shape.error().message.find("DeepSeek V4"), std::string::npos) << shape.error().message;
      continue;
    }
    ASSERT_TRUE(shape) << model.id << ": " << shape.error().to_string();
    EXPECT_EQ(shape->name, model.id);
    if (const std::string part = missing_part(model, *shape); !part.empty()) {
      unfinished.insert(model.id + ": " + part);
    } else if (model.parameters_billion > 0) {
      const double billion = static_cast<double>(count_parameters(*shape).total()) / 1e9;
      EXPECT_NEAR(billion / model.parameters_billion, 1, 0.01)
          << model.id << ": " << billion << " counted, " << model.parameters_billion << " stated";
      ++num_with_parameters;
    }
    if (model.kv_bytes_per_token > 0) {
      EXPECT_EQ(attention_bytes_per_token(*shape), model.kv_bytes_per_token) << model.id;
      ++num_with_kv;
    }
  }
  EXPECT_GE(num_with_parameters, 40);
  EXPECT_GE(num_with_kv, 40);
  for (const std::string& what : unfinished) ADD_FAILURE() << what;
}

TEST(FindCatalogueModel, ForgivesSpelling) {
  for (const char* name : {"Qwen/Qwen3-8B", "qwen3-8b", "QWEN/qwen3_8b", "Qwen3 8B", " qwen3-8b "}) {
    const auto model = find_catalogue_model(name);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(model->id, "Qwen/Qwen3-8B") << name;
  }
  EXPECT_EQ(find_catalogue_model("llama-3.1-8b")->id, "meta-llama/Meta-Llama-3.1-8B");
  EXPECT_EQ(find_catalogue_model("qwen2.5-7b")->id, "Qwen/Qwen2.5-7B-Instruct");
}

TEST(FindCatalogueModel, NamesTheNearest) {
  const auto typo = find_catalogue_model("qwen3-8x");
  ASSERT_FALSE(typo);
  EXPECT_EQ(typo.error().code, ErrorCode::kNotFound);
  EXPECT_NE(typo.error().message.find("Qwen/Qwen3-8B"), std::string::npos) << typo.error().message;
  // A copy may be stored differently.
  const auto copy = find_catalogue_model("someone/Qwen3-8B");
  ASSERT_FALSE(copy);
  EXPECT_NE(copy.error().message.find("Qwen/Qwen3-8B"), std::string::npos) << copy.error().message;
  for (const std::string& name : {std::string(), std::string("/"), std::string(5000, 'x'), std::string("\x01\xff")}) {
    EXPECT_FALSE(find_catalogue_model(name));
  }
}

TEST(ParseCatalogue, LaysAnEntryOverAnother) {
  const auto models = parse_catalogue(
      R"({"models": [{"id": "a/b", "config": {"x": 1, "y": 2}}, {"id": "a/c", "shape_of": "a/b", "config": {"y": 3}}]})",
      "m.json");
  ASSERT_TRUE(models) << models.error().to_string();
  EXPECT_EQ((*models)[1].config, R"({"x":1,"y":3})");
}

TEST(ParseCatalogue, LocatesErrors) {
  struct Row {
    const char* text;
    const char* where;
  };
  for (const Row& row :
       {Row{"[]", "m.json"}, Row{R"({"models":[3]})", "m.json#/models/0"},
        Row{R"({"models":[{"id":""}]})", "m.json#/models/0/id"}, Row{R"({"models":[{"id":"a"}]})", "m.json#/models/0"},
        Row{R"({"models":[{"id":"a","config":1}]})", "m.json#/models/0/config"},
        Row{R"({"models":[{"id":"a","shape_of":"b"}]})", "m.json#/models/0/shape_of"},
        Row{R"({"models":[{"id":"a","shape_of":"a"}]})", "m.json#/models/0/shape_of"},
        Row{R"({"models":[{"id":"a","config":{},"aliases":[1]}]})", "m.json#/models/0/aliases"}}) {
    const auto models = parse_catalogue(row.text, "m.json");
    ASSERT_FALSE(models) << row.text;
    EXPECT_EQ(models.error().where, row.where) << models.error().message;
  }
}

}  // namespace
}  // namespace ullage::model
