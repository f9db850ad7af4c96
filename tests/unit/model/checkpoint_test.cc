#include "ullage/model/checkpoint.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/model/gguf_builder.h"
#include "ullage/model/gguf.h"
#include "ullage/model/model_path.h"

namespace ullage::model {
namespace {

namespace fs = std::filesystem;

// A directory that goes with the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (fs::temp_directory_path() / "ullage-checkpoint-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { fs::remove_all(path_); }
  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }
  // Writes a file, with the folders it needs.
  std::string write(const std::string& name, std::string_view content) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

 private:
  std::string path_;
};

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "BF16";
};

std::string safetensors_of(const std::vector<Tensor>& tensors) {
  std::string header = "{";
  size_t at = 0;
  for (const Tensor& tensor : tensors) {
    size_t size = tensor.dtype == "F32" ? 4 : tensor.dtype == "I64" ? 8 : 2;
    std::string shape;
    for (const int64_t dim : tensor.shape) {
      size *= static_cast<size_t>(dim);
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    }
    header += (header == "{" ? "\"" : ",\"") + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" +
              shape + "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + size) + "]}";
    at += size;
  }
  header += "}";
  const uint64_t header_bytes = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &header_bytes, 8);
  return file + header + std::string(at, '\1');
}

constexpr std::string_view kConfig =
    R"({"model_type": "llama", "vocab_size": 5, "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "eos_token_id": 2, "bos_token_id": 1})";

std::vector<Tensor> tensors_of_config() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {5, 8}},
          {layer + "input_layernorm.weight", {8}},
          {layer + "self_attn.q_proj.weight", {8, 8}},
          {layer + "self_attn.k_proj.weight", {4, 8}},
          {layer + "self_attn.v_proj.weight", {4, 8}},
          {layer + "self_attn.o_proj.weight", {8, 8}},
          {layer + "post_attention_layernorm.weight", {8}},
          {layer + "mlp.gate_proj.weight", {12, 8}},
          {layer + "mlp.up_proj.weight", {12, 8}},
          {layer + "mlp.down_proj.weight", {8, 12}},
          {"model.norm.weight", {8}},
          {"lm_head.weight", {5, 8}}};
}

// A whole Hugging Face directory.
void write_model(const TempDir& dir, const std::string& prefix = "") {
  dir.write(prefix + "config.json", kConfig);
  dir.write(prefix + "model.safetensors", safetensors_of(tensors_of_config()));
}

void expect_error(const Result<Checkpoint>& result, ErrorCode code, std::string_view part) {
  ASSERT_FALSE(result) << "accepted; expected: " << part;
  EXPECT_EQ(result.error().code, code) << result.error().to_string();
  EXPECT_NE(result.error().to_string().find(part), std::string::npos) << result.error().to_string();
}

TEST(Checkpoint, OpensTheBundledModel) {
  const auto model = Checkpoint::open(ULLAGE_SOURCE_DIR "/data/stories260K.gguf");
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(count_parameters(model->shape()).total(), 260032);
  EXPECT_EQ(model->shape().layers.size(), 5u);
  EXPECT_EQ(model->generation().bos_token_id, 1);
  EXPECT_EQ(model->generation().eos_token_ids, (std::vector<TokenId>{2, 1}));  // a next story's <s> ends this one
  ASSERT_NE(model->gguf(), nullptr);
  EXPECT_EQ(*model->gguf()->get_string("general.license", ""), "mit");
  EXPECT_EQ(model->tensor(TensorRole::kOutputHead), nullptr);  // tied
  const TensorView* embedding = model->tensor(TensorRole::kTokenEmbedding);
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->shape, (std::vector<int64_t>{512, 64}));
  EXPECT_EQ(model->tensor(TensorRole::kFfnDown, 4)->shape, (std::vector<int64_t>{64, 172}));
  EXPECT_EQ(model->tensor(TensorRole::kFfnDown, 5), nullptr);
  EXPECT_EQ(model->tensor(TensorRole::kQueryBias, 0), nullptr);
}

TEST(Checkpoint, OpensAHuggingFaceDirectory) {
  const TempDir dir;
  write_model(dir);
  dir.write("generation_config.json", R"({"eos_token_id": [3, 4, 3], "temperature": 0.6, "top_p": 0.9, "top_k": 20})");
  dir.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool", "template": "T"},
                                                           {"name": "default", "template": "D"}]})");
  const auto model = Checkpoint::open(dir.path() + "/");
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->path(), dir.path());
  EXPECT_EQ(model->gguf(), nullptr);
  EXPECT_EQ(model->tensors().size(), 12u);
  EXPECT_EQ(model->tensor(TensorRole::kKey, 0)->shape, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(model->tensor(TensorRole::kOutputHead)->name, "lm_head.weight");
  EXPECT_EQ(model->generation().eos_token_ids, (std::vector<TokenId>{3, 4}));
  EXPECT_EQ(model->generation().bos_token_id, 1);  // from config.json
  EXPECT_EQ(model->generation().temperature, 0.6);
  EXPECT_EQ(model->generation().top_p, 0.9);
  EXPECT_EQ(model->generation().top_k, 20);
  EXPECT_EQ(model->chat_template(), "D");
  dir.write("chat_template.jinja", "J");
  EXPECT_EQ(Checkpoint::open(dir.path())->chat_template(), "J");
}

TEST(Checkpoint, ReadsShardsThroughTheirIndex) {
  const auto model = Checkpoint::open(ULLAGE_SOURCE_DIR "/tests/data/models/hf/llama-headdim-sharded");
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(std::get<Attention>(model->shape().layers[0].mixer).head_dim, 16);
  for (int64_t layer = 0; layer < 2; ++layer) {
    EXPECT_NE(model->tensor(TensorRole::kQuery, layer), nullptr);
    EXPECT_NE(model->tensor(TensorRole::kFfnDown, layer), nullptr);
  }
}

TEST(Checkpoint, ChecksTheIndexAgainstTheShards) {
  const TempDir dir;
  write_model(dir);
  const auto with_index = [&](const char* index) {
    dir.write("model.safetensors.index.json", index);
    return Checkpoint::open(dir.path());
  };
  expect_error(with_index(R"({"weight_map": {"model.norm.weight": "model-2.safetensors"}})"), ErrorCode::kNotFound,
               "model-2.safetensors, which is missing");
  expect_error(with_index(R"({"weight_map": {"x": "../../etc/passwd"}})"), ErrorCode::kCorrupt, "plain name");
  expect_error(with_index(R"({"weight_map": {"x": 3}})"), ErrorCode::kCorrupt, "/weight_map/x");
  expect_error(with_index(R"({"weights": {}})"), ErrorCode::kCorrupt, "weight_map");
  expect_error(with_index(R"({"weight_map": {"other.weight": "model.safetensors"}})"), ErrorCode::kCorrupt,
               "lacks tensor \"other.weight\"");
  dir.write("twin.safetensors", safetensors_of({{"model.norm.weight", {8}}}));
  expect_error(with_index(R"({"weight_map": {"model.norm.weight": "model.safetensors",
                                             "model.norm.weight2": "twin.safetensors"}})"),
               ErrorCode::kCorrupt, "lacks tensor");
  expect_error(with_index(R"({"weight_map": {"lm_head.weight": "model.safetensors",
                                             "model.norm.weight": "twin.safetensors"}})"),
               ErrorCode::kCorrupt, "is in two files");
}

TEST(Checkpoint, FindsAModelByNameInTheHuggingFaceCache) {
  const TempDir dir;
  const std::string repository = "models--org--tiny/";
  write_model(dir, repository + "snapshots/abc123/");
  dir.write(repository + "refs/main", "abc123\n");
  const auto model = Checkpoint::open("org/tiny", dir.path());
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->shape().name, "org/tiny");
  EXPECT_EQ(model->path(), dir.path(repository + "snapshots/abc123"));

  // A second snapshot: refs/main decides; without it there is a choice to make.
  write_model(dir, repository + "snapshots/def456/");
  EXPECT_TRUE(Checkpoint::open("org/tiny", dir.path()));
  fs::remove(dir.path(repository + "refs/main"));
  expect_error(Checkpoint::open("org/tiny", dir.path()), ErrorCode::kNotFound, "abc123, def456");

  expect_error(Checkpoint::open("org/other", dir.path()), ErrorCode::kNotFound, "hf download org/other");
  expect_error(Checkpoint::open("../tiny", dir.path()), ErrorCode::kNotFound, "no such file");
  expect_error(Checkpoint::open("/nowhere/model.gguf"), ErrorCode::kNotFound, "no such file");
  expect_error(Checkpoint::open(""), ErrorCode::kNotFound, "no such file");
}

TEST(Checkpoint, ASnapshotIsFoundWhateverItHolds) {
  const TempDir dir;
  dir.write("models--org--shape/snapshots/1/config.json", kConfig);
  EXPECT_EQ(find_cached_model("org/shape", dir.path()), dir.path("models--org--shape/snapshots/1"));
  EXPECT_EQ(find_cached_model("org/other", dir.path()), std::nullopt);
  EXPECT_EQ(find_cached_model(dir.path(), dir.path()), std::nullopt);  // a path
}

TEST(Checkpoint, TakesTheGgufOfASnapshotWithoutSafetensors) {
  const TempDir dir;
  dir.write("models--org--tiny-GGUF/snapshots/1/tiny.gguf", testing::tiny_llama().build());
  const auto model = Checkpoint::open("org/tiny-GGUF", dir.path());
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_NE(model->gguf(), nullptr);
  EXPECT_EQ(model->chat_template(), "{{ messages }}");
  dir.write("models--org--tiny-GGUF/snapshots/1/tiny-Q8_0.gguf", "GGUF");
  expect_error(Checkpoint::open("org/tiny-GGUF", dir.path()), ErrorCode::kInvalidArgument, "tiny-Q8_0.gguf, tiny.gguf");
}

TEST(Checkpoint, FollowsHuggingFacesEnvironment) {
  const char* const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::string> saved;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    saved.emplace_back(value == nullptr ? "" : value);
    ::unsetenv(name);
  }
  EXPECT_EQ(hf_cache_directory(), "");
  ::setenv("HOME", "/home/u", 1);
  EXPECT_EQ(hf_cache_directory(), "/home/u/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(hf_cache_directory(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(hf_cache_directory(), "/hf/hub");
  ::setenv("HF_HUB_CACHE", "/hub", 1);
  EXPECT_EQ(hf_cache_directory(), "/hub");
  for (size_t i = 0; i < std::size(names); ++i) {
    saved[i].empty() ? ::unsetenv(names[i]) : ::setenv(names[i], saved[i].c_str(), 1);
  }
}

TEST(Checkpoint, SaysWhichTensorIsMissingOrOff) {
  const TempDir dir;
  dir.write("config.json", kConfig);
  const auto with = [&](const std::vector<Tensor>& tensors) {
    dir.write("model.safetensors", safetensors_of(tensors));
    return Checkpoint::open(dir.path());
  };
  for (size_t i = 0; i < tensors_of_config().size(); ++i) {
    std::vector<Tensor> tensors = tensors_of_config();
    const std::string name = tensors[i].name;
    tensors[i].shape[0] += 1;
    expect_error(with(tensors), ErrorCode::kCorrupt, "tensor " + name);
    expect_error(with(tensors), ErrorCode::kCorrupt, "but the model's configuration asks for [");
    tensors[i].shape[0] -= 1;
    tensors[i].dtype = "I64";  // not a number that models are made of
    expect_error(with(tensors), ErrorCode::kUnsupported, "tensor " + name + ": is stored as I64");
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    expect_error(with(tensors), ErrorCode::kCorrupt, "no tensor " + name);
  }
  std::vector<Tensor> more = tensors_of_config();
  more.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, "F32"});
  EXPECT_TRUE(with(more));                                         // what the model does not use may be there
  more.push_back({"model.layers.1.input_layernorm.weight", {8}});  // but not more of the model
  expect_error(with(more), ErrorCode::kCorrupt, "model.layers.1.input_layernorm.weight\", but");
}

TEST(Checkpoint, ChecksAGgufsTensorsToo) {
  const TempDir dir;
  testing::GgufBuilder without_norm;
  without_norm.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 64);
  without_norm.u32("llama.embedding_length", 8).u32("llama.feed_forward_length", 12);
  without_norm.u32("llama.attention.head_count", 2).tensor("token_embd.weight", {8, 5});
  expect_error(Checkpoint::open(dir.write("a.gguf", without_norm.build())), ErrorCode::kCorrupt,
               "no tensor output_norm.weight of shape [8]");
  testing::GgufBuilder factors = testing::tiny_llama();
  factors.tensor("rope_freqs.weight", {2});
  const auto model = Checkpoint::open(dir.write("b.gguf", factors.build()));
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_NE(model->tensor(TensorRole::kRopeFactors), nullptr);
  testing::GgufBuilder bias = testing::tiny_llama();
  bias.tensor("blk.0.ffn_up.bias", {12});
  expect_error(Checkpoint::open(dir.write("c.gguf", bias.build())), ErrorCode::kUnsupported, "mlp_bias");
  testing::GgufBuilder deeper = testing::tiny_llama();
  deeper.tensor("blk.7.attn_norm.weight", {8});
  expect_error(Checkpoint::open(dir.write("d.gguf", deeper.build())), ErrorCode::kCorrupt, "blk.7.attn_norm.weight");
  testing::GgufBuilder part = testing::tiny_llama();
  part.u32("split.count", 3);
  expect_error(Checkpoint::open(dir.write("e.gguf", part.build())), ErrorCode::kUnsupported, "one of 3 parts");
}

TEST(Checkpoint, RefusesWhatItCannotReadByName) {
  const TempDir dir;
  expect_error(Checkpoint::open(dir.path()), ErrorCode::kNotFound, "holds no model");
  expect_error(Checkpoint::open(dir.write("model.safetensors.txt", "hello")), ErrorCode::kUnsupported,
               "not a GGUF file");
  dir.write("config.json", kConfig);
  expect_error(Checkpoint::open(dir.path()), ErrorCode::kNotFound, "no weights");
  dir.write("pytorch_model.bin", "PK");
  expect_error(Checkpoint::open(dir.path()), ErrorCode::kUnsupported, "pytorch_model.bin");
  write_model(dir);
  std::string quantised(kConfig);
  quantised.back() = ',';
  dir.write("config.json", quantised + R"("quantization_config": {"quant_method": "awq"}})");
  expect_error(Checkpoint::open(dir.path()), ErrorCode::kUnsupported, "\"awq\"");
}

TEST(Checkpoint, RefusesBadSideFiles) {
  const TempDir dir;
  write_model(dir);
  const auto with = [&](const char* generation) {
    dir.write("generation_config.json", generation);
    return Checkpoint::open(dir.path());
  };
  expect_error(with(R"({"eos_token_id": "</s>"})"), ErrorCode::kInvalidArgument, "generation_config.json/eos_token_id");
  expect_error(with(R"({"top_p": 1.5})"), ErrorCode::kInvalidArgument, "generation_config.json/top_p");
  expect_error(with("[]"), ErrorCode::kInvalidArgument, "generation_config.json");
  expect_error(with("{"), ErrorCode::kCorrupt, "not valid JSON");
  // Ids that the vocabulary does not have are left out.
  const auto model = with(R"({"eos_token_id": [5, 2, -1]})");
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_EQ(model->generation().eos_token_ids, std::vector<TokenId>{2});
}

}  // namespace
}  // namespace ullage::model
