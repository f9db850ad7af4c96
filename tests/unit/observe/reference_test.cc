// The runner of reference sets, on folders made up here.
#include "ullage/observe/reference.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ullage/base/mapped_file.h"
#include "ullage/observe/reference_rows.h"

namespace ullage::observe {
namespace {

struct Folder {
  std::map<std::string, std::string> texts;
  ReferenceFiles files() const {
    ReferenceFiles files;
    files.read = [this](const std::string& path) -> Result<std::string> {
      const auto at = texts.find(path);
      if (at == texts.end()) return Error{ErrorCode::kNotFound, "there is no such file", path};
      return at->second;
    };
    files.list = [this](const std::string& folder) {
      std::vector<std::string> names;
      for (const auto& [path, text] : texts) {
        if (path.starts_with(folder + "/")) names.push_back(path.substr(folder.size() + 1));
      }
      return names;
    };
    return files;
  }
};

const char* kConfig =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, "
    "\"intermediate_size\": 14336, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
    "\"num_key_value_heads\": 8, \"vocab_size\": 128256, \"max_position_embeddings\": 131072, "
    "\"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, \"hidden_act\": \"silu\", \"torch_dtype\": \"bfloat16\", "
    "\"tie_word_embeddings\": false}";
const char* kModels =
    "name,config,relation,weight_format,basis\nm,configs/m.config.json,same,bf16,\"a, \"\"b\"\"\"\n"
    "other,,,,not known\n";
const char* kStartupHead =
    "status,model,gpu,tp,pp,max_model_len,dtype,kv_cache_dtype,kv_cache_memory_gib,kv_cache_tokens,kv_cache_blocks,"
    "max_concurrency\n";

const SetResult& set_of(const ReferenceReport& report, const std::string& name) {
  for (const SetResult& set : report.sets) {
    if (set.name == name) return set;
  }
  static const SetResult kNone;
  ADD_FAILURE() << name;
  return kNone;
}

TEST(Reference, RecordedLayoutsPass) {
  Folder folder;
  folder.texts["vllm/plan.jsonl"] = *read_text_file(ULLAGE_SOURCE_DIR "/tests/data/vllm/plan.jsonl", 1 << 22);
  const auto report = run_reference(folder.files());
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(set_of(*report, "vllm/plan").passed, 200);
  EXPECT_EQ(set_of(*report, "vllm/plan").total, 200);
  EXPECT_TRUE(set_of(*report, "bootlogs").is_missing);
  EXPECT_FALSE(report->has_miss());
  EXPECT_NE(format_report(*report).find("vllm/plan: 200/200\n"), std::string::npos);
}

TEST(Reference, ADifferenceIsAMissThatIsToldOf) {
  const std::string row =
      "{\"case\":1,\"given\":{\"max_model_len\":131072,\"block_size\":16,\"available_bytes\":53687091200,"
      "\"max_num_batched_tokens\":8192,\"max_concurrent_batches\":2,\"layers\":[{\"type\":\"full\",\"count\":32,"
      "\"kv_heads\":8,\"head_dim\":128}]},\"expect\":{\"num_blocks\":25601}}";
  Folder folder;
  folder.texts["vllm/plan.jsonl"] = row + "\n{broken\n";
  auto report = run_reference(folder.files());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->has_miss());
  EXPECT_NE(set_of(*report, "vllm/plan").misses.at(0).find("vllm/plan.jsonl:2"), std::string::npos);
  folder.texts["vllm/plan.jsonl"] = row + "\n";
  report = run_reference(folder.files());
  ASSERT_TRUE(report);
  EXPECT_NE(set_of(*report, "vllm/plan").misses.at(0).find("num_blocks is 25600, expected 25601"), std::string::npos)
      << set_of(*report, "vllm/plan").misses.at(0);
}

TEST(Reference, StartupsFromTheirLoggedMemory) {
  Folder folder;
  folder.texts["models.csv"] = kModels;
  folder.texts["configs/m.config.json"] = kConfig;
  const std::string head = kStartupHead;
  // Of a start on an H100: 58.11 GiB, 29,750 blocks, 476,000 tokens, 58.11 requests.
  const std::string good = "ok,m,H100-80GB,1,1,8192,torch.bfloat16,auto,58.11,476000,29750,58.11\n";
  folder.texts["startups/x-vllm-0.19.csv"] =
      head + good + "ok,other,H100-80GB,1,1,8192,torch.bfloat16,auto,1,1,1,1\nfailed,m,,,,,,,,,,\n";
  auto report = run_reference(folder.files());
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(set_of(*report, "startups").passed, 1);
  EXPECT_EQ(set_of(*report, "startups").total, 1);
  EXPECT_EQ(set_of(*report, "startups").notes.size(), 1U);
  for (const char* bad : {"ok,m,H100-80GB,1,1,8192,torch.bfloat16,auto,58.11,476096,29756,58.12\n",
                          "ok,m,H100-80GB,1,1,8192,torch.bfloat16,auto,58.11,476001,29750,58.11\n",
                          "ok,m,H100-80GB,1,1,8192,torch.bfloat16,auto,58.11,476000,29750,58.12\n",
                          "ok,m,H100-80GB,1,1,8192,torch.bfloat16,fp8,58.11,476000,29750,58.11\n",
                          "ok,m,H100-80GB,1,1,8192,torch.bfloat16,nonsense,58.11,476000,29750,58.11\n"}) {
    folder.texts["startups/x-vllm-0.19.csv"] = head + bad;
    report = run_reference(folder.files());
    ASSERT_TRUE(report);
    EXPECT_EQ(set_of(*report, "startups").passed, 0) << bad;
    EXPECT_EQ(set_of(*report, "startups").misses.size(), 1U) << bad;
  }
}

TEST(Reference, BootlogsWithinTheRoundingOfTheirMemory) {
  Folder folder;
  folder.texts["models.csv"] = kModels;
  folder.texts["configs/m.config.json"] = kConfig;
  const auto row = [](const char* tokens) {
    return std::string(
               "{\"id\":\"b1\",\"engine\":\"vllm\",\"engine_version\":\"0.17.1\",\"model\":\"m\","
               "\"weight_dtype\":\"bfloat16\",\"tensor_parallel\":1,\"kv_cache_dtype\":\"auto\","
               "\"max_model_len\":32768,\"available_kv_gib\":55.79,\"kv_tokens\":") +
           tokens + ",\"complete_for_tokens\":true}\n";
  };
  folder.texts["bootlogs/b.jsonl"] = row("457024");
  auto report = run_reference(folder.files());
  ASSERT_TRUE(report);
  EXPECT_EQ(set_of(*report, "bootlogs").passed, 1);
  EXPECT_EQ(set_of(*report, "bootlogs").table.at(0).num_rows, 1);
  folder.texts["bootlogs/b.jsonl"] = row("470000");
  report = run_reference(folder.files());
  ASSERT_TRUE(report);
  EXPECT_EQ(set_of(*report, "bootlogs").passed, 0);
  EXPECT_TRUE(report->has_miss());
}

TEST(Reference, ConfigsGiveAShapeOrARefusalByName) {
  Folder folder;
  folder.texts["configs/m.config.json"] = kConfig;
  folder.texts["configs/new.config.json"] = "{\"model_type\": \"not-known-yet\"}";
  folder.texts["configs/bad.config.json"] = "{\"model_type\": ";
  const auto report = run_reference(folder.files());
  ASSERT_TRUE(report);
  const SetResult& set = set_of(*report, "configs");
  EXPECT_EQ(set.total, 3);
  EXPECT_EQ(set.passed, 2);
  EXPECT_NE(set.misses.at(0).find("configs/bad.config.json"), std::string::npos) << set.misses.at(0);
  EXPECT_NE(set.notes.at(0).find("not-known-yet"), std::string::npos) << set.notes.at(0);
}

TEST(Reference, AnEmptyFolderIsAnError) {
  const Folder folder;
  const auto report = run_reference(folder.files());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
}

TEST(ReferenceRows, CsvCellsAndPlaces) {
  const auto table = CsvTable::parse("a,b\n\"x, \"\"y\"\"\",1.5\n\n2,3\n", "t.csv");
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 2U);
  EXPECT_EQ(table->row(0).text("a"), "x, \"y\"");
  EXPECT_EQ(table->row(0).number("b"), 1.5);
  EXPECT_EQ(table->row(1).count("b"), 3);
  EXPECT_EQ(table->row(1).line(), 4);
  EXPECT_FALSE(table->row(0).number("a"));
  EXPECT_EQ(table->row(0).text("nothing"), "");
  const auto wide = CsvTable::parse("a,b\n1,2,3\n", "t.csv");
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().where, "t.csv:2");
}

TEST(ReferenceRows, MedianAndPercentile) {
  const ErrorRow row = error_row("x", "modelled", {0.4, 0.1, 0.2, 0.3});
  EXPECT_DOUBLE_EQ(row.median, 0.25);
  EXPECT_DOUBLE_EQ(row.p90, 0.4);
  EXPECT_DOUBLE_EQ(row.worst, 0.4);
  EXPECT_EQ(row.num_rows, 4);
}

}  // namespace
}  // namespace ullage::observe
