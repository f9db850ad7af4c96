#include "ullage/memory/engine_profile.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "ullage/hardware/device.h"

namespace ullage::memory {
namespace {

std::string_view found(std::string_view name) {
  const auto profile = find_engine_profile(name);
  return profile ? (*profile)->name : std::string_view("none");
}

TEST(EngineProfiles, AreFoundByVersion) {
  EXPECT_EQ(found("vllm"), "vllm-0.29");
  EXPECT_EQ(found("vllm-0.19"), "vllm-0.19");
  EXPECT_EQ(found("vLLM 0.22.1"), "vllm-0.22");
  EXPECT_EQ(found("vllm 0.20.1.dev0+g101584af0.d20260424"), "vllm-0.20");
  EXPECT_EQ(found("vllm-0.20.2"), "vllm-0.20.2");
  EXPECT_EQ(found("vllm v0.13.0+faa43dbf.nv26.01"), "vllm-0.12");
  EXPECT_EQ(found("vllm 0.6.3.post1"), "vllm-0.6");
  EXPECT_EQ(found("vllm 0.7.x V0"), "vllm-0.6");
  EXPECT_EQ(found("vllm 1.0"), "vllm-0.29");
  EXPECT_EQ(found("vllm 0.1.dev1+ga919d635d"), "vllm-0.29");
  EXPECT_EQ(found("SGLang"), "sglang");
  EXPECT_EQ(found("sglang 0.5.3"), "sglang");
  EXPECT_EQ(found("llama-server"), "llama.cpp");
  EXPECT_EQ(found("ullage"), "ullage");
  EXPECT_EQ(found("lesson"), "lesson");
}

TEST(EngineProfiles, UnknownOnesAreRefusedWithWhatThereIs) {
  for (const std::string_view name : {"", "tensorrt", "vllm-0.5.1", "vllm-", "vllm nightly", "sglangx", "0.19"}) {
    const auto profile = find_engine_profile(name, "--engine");
    ASSERT_FALSE(profile) << name;
    EXPECT_EQ(profile.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(profile.error().where, "--engine");
  }
  EXPECT_NE(find_engine_profile("tensorrt").error().message.find("vllm-0.19"), std::string::npos);
}

TEST(EngineProfiles, EachSaysItsEvidenceAndError) {
  std::set<std::string_view> names;
  for (const EngineProfile& profile : engine_profiles()) {
    EXPECT_TRUE(names.insert(profile.name).second) << profile.name;
    EXPECT_FALSE(profile.evidence.empty()) << profile.name;
    EXPECT_FALSE(profile.error.empty()) << profile.name;
  }
}

TEST(EngineProfiles, DefaultsFollowVersionAndDevice) {
  const auto defaults = [](std::string_view policy, std::string_view name) {
    const auto profile = find_engine_profile(policy);
    const auto device = hardware::find_device(name);
    EXPECT_TRUE(profile && device) << policy << name;
    return std::tuple(default_utilization(**profile, *device), default_max_num_seqs(**profile, *device),
                      default_max_num_batched_tokens(**profile, *device));
  };
  EXPECT_EQ(defaults("vllm-0.19", "h100"), std::tuple(0.90, 1024, 8192));
  EXPECT_EQ(defaults("vllm-0.20", "h100"), std::tuple(0.90, 1024, 8192));
  EXPECT_EQ(defaults("vllm-0.20.2", "h100"), std::tuple(0.92, 1024, 8192));
  EXPECT_EQ(defaults("vllm-0.29", "a100-80gb"), std::tuple(0.92, 256, 2048));
  EXPECT_EQ(defaults("vllm-0.29", "l4"), std::tuple(0.92, 256, 2048));
  EXPECT_EQ(defaults("vllm-0.22", "b200"), std::tuple(0.92, 1024, 8192));
  EXPECT_EQ(defaults("vllm-0.29", "b200"), std::tuple(0.92, 1024, 16384));
  EXPECT_EQ(defaults("vllm-0.6", "h100"), std::tuple(0.90, 256, 2048));
  EXPECT_EQ(defaults("ullage", "h100"), std::tuple(0.92, 1024, 8192));
  EXPECT_EQ(defaults("ullage", "epyc-9654"), std::tuple(0.5, 128, 512));
}

// SGLang printed 25.9 GiB kept back on a device of 275.8 GiB: (275.8 - 25.6) / 275.8.
TEST(EngineProfiles, SglangFractionFollowsFromTheDevice) {
  hardware::Device device;
  device.nominal_memory = Bytes(static_cast<int64_t>(275.76 * static_cast<double>(kGiB)));
  const EngineProfile* sglang = *find_engine_profile("sglang");
  EXPECT_NEAR(default_utilization(*sglang, device), 0.907, 0.001);
  device.nominal_memory = Bytes(80 * kGiB);
  // 512 + 1.5 x 8,192 + 2 x 256 + 128 = 13,440 MiB of 81,920.
  EXPECT_NEAR(default_utilization(*sglang, device), 0.836, 1e-9);
  // A chunk of the user's own: 512 + 1.5 x 2,048 + 2 x 512 + 4 x 128 is below the 10 GiB that large devices keep.
  EXPECT_NEAR(default_utilization(*sglang, device, 4, 2048), 0.875, 1e-9);
}

}  // namespace
}  // namespace ullage::memory
