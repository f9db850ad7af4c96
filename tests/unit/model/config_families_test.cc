// config.json of every family: parameters and KV bytes per token against counts from elsewhere. tests/data/configs/
// README.md says where the files are from.
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "ullage/model/config.h"
#include "ullage/model/model_shape.h"
#include "ullage/model/servable.h"

namespace ullage::model {
namespace {

struct Golden {
  const char* file;
  int64_t num_parameters;  // towers included, draft layers not
  int64_t full_bytes;      // bf16 KV of one token in layers that keep every token
  int64_t windowed_bytes;  // in layers that keep a window or a chunk
};

// Parameters: what Hugging Face's own modelling classes (transformers 5.24, meta device) count for the same file, plus
// the routers' correction biases, which they hold as buffers and the checkpoints as tensors; where another source is
// named, that. KV: layers x KV heads x (key + value) x 2 bytes by hand; latent: layers x (rank + rope) x 2.
constexpr Golden kGolden[] = {
    {"llama-2-70b", 68'976'648'192, 327'680, 0},
    {"llama-3.1-405b", 405'853'388'800, 516'096, 0},
    {"mistral-nemo", 12'247'782'400, 163'840, 0},
    {"devstral-small-2", 24'011'361'280, 163'840, 0},
    {"mixtral-8x7b", 46'702'792'704, 131'072, 0},
    {"qwen1.5-moe", 14'315'784'192, 196'608, 0},  // vLLM 0.19 logs 26.67 GiB; these are 26.665
    {"qwen2.5-72b", 72'706'203'648, 327'680, 0},
    {"qwen2.5-vl-7b", 8'292'166'656, 57'344, 0},
    {"qwen3-0.6b", 596'049'920, 114'688, 0},
    {"qwen3-30b-a3b", 30'532'122'624, 98'304, 0},
    {"qwen3-vl-4b", 4'437'815'808, 147'456, 0},
    {"gemma-2-9b", 9'241'705'984, 172'032, 172'032},
    {"gemma-3-4b", 4'300'079'472, 20'480, 118'784},
    {"gemma-4-26b-a4b", 25'805'933'872, 20'480, 204'800},
    {"gemma-4-e2b-text", 4'628'569'344, 6'144, 12'288},  // 20 of 35 layers share others' keys and values
    {"gpt-oss-120b", 116'829'156'672, 36'864, 36'864},   // model card: 116.83B
    {"phi-4", 14'659'507'200, 204'800, 0},
    {"phi-3.5-moe", 41'873'153'344, 131'072, 0},  // model card: 41.9B
    {"granite-3.3-8b", 8'170'864'640, 163'840, 0},
    {"llava-1.5-7b", 7'063'427'072, 524'288, 0},
    {"deepseek-v2-lite", 15'706'484'224, 31'104, 0},
    {"deepseek-v3", 671'026'419'200, 70'272, 0},    // report: 671B
    {"deepseek-v3.2", 671'877'944'064, 78'324, 0},  // 61 x (1152 + 132): the indexer's key is 128 fp8 and a scale
    {"kimi-k2.5", 1'026'879'376'368, 70'272, 0},
    {"glm-5.2", 743'377'019'904, 92'628, 0},  // 78 x 1152 + 21 x 132: 57 layers take another's tokens
    {"minimax-m2.5", 228'689'764'864, 253'952, 0},
    {"step-3.7-flash", 195'844'508'736, 49'152, 135'168},  // classes' count less the tower, which the file leaves out
    {"llama-4-scout", 108'641'793'536, 49'152, 147'456},   // Hub: 109B
    {"llama-4-maverick", 400'711'848'960, 49'152, 147'456},
    {"nemotron-super-49b", 49'867'145'216, 200'704, 0},  // Hub: 49.9B; 49 of 80 layers have attention
    {"dots-ocr", 3'039'179'264, 28'672, 0},              // Hub: 3.04B
    {"olmo-3-7b", 7'298'011'136, 131'072, 393'216},      // Hub: 7.30B
};

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Result<ModelShape> parse_file(const std::string& name) {
  return parse_config(read_file(ULLAGE_SOURCE_DIR "/tests/data/configs/" + name + ".json"), name);
}

ModelShape parse(std::string_view json) {
  auto shape = parse_config(json, "config.json");
  EXPECT_TRUE(shape) << shape.error().to_string();
  return shape ? *std::move(shape) : ModelShape{};
}

int64_t pair_bytes(const FullAttentionKv& kv) { return 2 * kv.num_kv_heads * (kv.key_dim + kv.value_dim); }

void add_bytes(const KvSpec& spec, int64_t& full, int64_t& windowed) {
  if (const auto* all = std::get_if<FullAttentionKv>(&spec)) full += pair_bytes(*all);
  if (const auto* window = std::get_if<SlidingWindowKv>(&spec)) windowed += pair_bytes(window->kv);
  if (const auto* chunk = std::get_if<ChunkedLocalKv>(&spec)) windowed += pair_bytes(chunk->kv);
  if (const auto* latent = std::get_if<LatentKv>(&spec)) full += 2 * (latent->latent_dim + latent->rope_dim);
  if (const auto* key = std::get_if<IndexerKv>(&spec)) full += key->head_dim + 4 * (key->head_dim / 128);
}

class ConfigFamilies : public testing::TestWithParam<Golden> {};

TEST_P(ConfigFamilies, GivesTheParametersAndTheKvOfOneToken) {
  const Golden& golden = GetParam();
  const auto shape = parse_file(golden.file);
  ASSERT_TRUE(shape) << shape.error().to_string();
  EXPECT_EQ(count_parameters(*shape).total(), golden.num_parameters);
  int64_t full = 0;
  int64_t windowed = 0;
  for (const LayerShape& layer : shape->layers) {
    for (const KvSpec& spec : kv_specs(layer)) add_bytes(spec, full, windowed);
  }
  EXPECT_EQ(full, golden.full_bytes);
  EXPECT_EQ(windowed, golden.windowed_bytes);
}

INSTANTIATE_TEST_SUITE_P(Files, ConfigFamilies, testing::ValuesIn(kGolden), [](const auto& test) {
  std::string name = test.param.file;
  for (char& c : name) {
    if (c == '-' || c == '.') c = '_';
  }
  return name;
});

// Published totals of models whose files say little.
TEST(ConfigOlderFamilies, GiveThePublishedTotals) {
  const auto total = [](std::string_view json) { return count_parameters(parse(json)).total(); };
  EXPECT_EQ(total(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
                      "vocab_size": 50257})"),
            124'439'808);  // GPT-2
  EXPECT_EQ(total(R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_hidden_layers": 12,
                      "num_attention_heads": 12, "vocab_size": 50272, "word_embed_proj_dim": 768})"),
            125'239'296);  // OPT-125M
  EXPECT_EQ(total(R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112,
                      "vocab_size": 250880})"),
            176'247'271'424);  // BLOOM-176B
  EXPECT_EQ(total(R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "vocab_size": 50400,
                      "tie_word_embeddings": false})"),
            6'050'882'784);  // GPT-J-6B
  EXPECT_EQ(total(R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
                      "num_hidden_layers": 44, "num_attention_heads": 64, "vocab_size": 50432})"),
            20'554'567'680);  // GPT-NeoX-20B
  EXPECT_EQ(total(R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
                      "num_attention_heads": 71, "vocab_size": 65024, "multi_query": true})"),
            6'921'720'704);  // Falcon-7B
  EXPECT_EQ(total(R"({"model_type": "whisper", "vocab_size": 51865, "d_model": 384, "encoder_layers": 4,
                      "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
                      "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536})"),
            37'760'640);  // whisper-tiny
  EXPECT_EQ(total(R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
                      "vocab_size": 32128})"),
            60'506'624);  // t5-small
  EXPECT_EQ(total(R"({"model_type": "bart", "vocab_size": 50265, "d_model": 1024, "encoder_layers": 12,
                      "decoder_layers": 12, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
                      "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096})"),
            406'291'456);  // bart-large
}

TEST(ConfigFamiliesLayers, CrossAttentionKeepsTheEncodersOutput) {
  const ModelShape shape = parse(R"({"model_type": "whisper", "vocab_size": 51865, "d_model": 384,
      "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
      "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536})");
  ASSERT_EQ(shape.layers.size(), 4u);
  const std::vector<KvSpec> specs = kv_specs(shape.layers[0]);
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0], KvSpec(FullAttentionKv{6, 64, 64}));
  EXPECT_EQ(specs[1], KvSpec(CrossAttentionKv{{6, 64, 64}, 1500}));
}

TEST(ConfigFamiliesLayers, DraftLayersStandApart) {
  const auto shape = parse_file("deepseek-v3");
  ASSERT_TRUE(shape);
  ASSERT_EQ(shape->draft_layers.size(), 1u);
  // DeepSeek-V3's model card: 14B of the MTP module, of which embedding and head (1.85B) are the main model's.
  const double own = static_cast<double>(count_parameters(*shape).draft);
  EXPECT_NEAR(own / 1e9, 11.6, 0.05);
}

TEST(ConfigFamiliesLayers, ServingStaysStrict) {
  for (const Golden& golden : kGolden) {
    const auto shape = parse_file(golden.file);
    ASSERT_TRUE(shape);
    const bool is_plain =
        shape->architecture == "llama" || shape->architecture == "qwen2" || shape->architecture == "qwen3";
    if (!is_plain) {
      EXPECT_FALSE(check_servable(*shape, golden.file)) << golden.file;
    }
  }
  const auto mixtral = parse_file("mixtral-8x7b");
  ASSERT_TRUE(mixtral);
  const auto servable = check_servable(*mixtral, "config.json");
  ASSERT_FALSE(servable);
  EXPECT_NE(servable.error().message.find("\"mixtral\""), std::string::npos) << servable.error().message;
}

TEST(ConfigFamiliesErrors, SayWhatIsWrong) {
  struct Case {
    const char* json;
    ErrorCode code;
    const char* where;
    const char* part;
  };
  constexpr Case kCases[] = {
      {R"({"model_type": "nonesuch"})", ErrorCode::kUnsupported, "c/model_type", "\"nonesuch\""},
      {R"({"model_type": "mixtral", "vocab_size": 9, "hidden_size": 64, "intermediate_size": 64,
           "num_hidden_layers": 1, "num_attention_heads": 8, "num_local_experts": 2, "num_experts_per_tok": 3})",
       ErrorCode::kInvalidArgument, "c/num_experts_per_tok", "3 experts a token are more than the layer's 2"},
      {R"({"model_type": "gemma4_text", "vocab_size": 9, "hidden_size": 64, "intermediate_size": 64,
           "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 1, "num_kv_shared_layers": 2})",
       ErrorCode::kInvalidArgument, "c/num_kv_shared_layers", "share the keys"},
      {R"({"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {"model_type": "odd"}})",
       ErrorCode::kUnsupported, "c/vision_config/model_type", "\"odd\""},
      {R"({"model_type": "nemotron-nas", "vocab_size": 9, "hidden_size": 64, "num_hidden_layers": 1,
           "num_attention_heads": 8, "block_configs": [{"attention": {"replace_with_linear": true}, "ffn": {}}]})",
       ErrorCode::kUnsupported, "c/block_configs/0/attention/replace_with_linear", "one linear layer"},
      {R"({"model_type": "deepseek_v3", "vocab_size": 9, "hidden_size": 64, "intermediate_size": 64,
           "num_hidden_layers": 2, "num_attention_heads": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
           "moe_intermediate_size": 8, "kv_lora_rank": 0})",
       ErrorCode::kInvalidArgument, "c/kv_lora_rank", "is 0"},
  };
  for (const Case& c : kCases) {
    const auto shape = parse_config(c.json, "c");
    ASSERT_FALSE(shape) << c.json;
    EXPECT_EQ(shape.error().code, c.code) << shape.error().to_string();
    EXPECT_EQ(shape.error().where, c.where) << shape.error().to_string();
    EXPECT_NE(shape.error().message.find(c.part), std::string::npos) << shape.error().to_string();
  }
}

}  // namespace
}  // namespace ullage::model
