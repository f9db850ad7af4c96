#include "ullage/hardware/device.h"

#include <gtest/gtest.h>

#include <set>

#include "ullage/base/mapped_file.h"
#include "ullage/hardware/devices_json.h"

namespace ullage::hardware {
namespace {

TEST(Catalogue, IsTheFileInData) {
  const auto text = read_text_file(ULLAGE_SOURCE_DIR "/data/devices.json", 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, kDevicesJson);
}

TEST(Catalogue, HoldsPublishedFigures) {
  // Makers' data sheets, dense.
  struct Row {
    const char* name;
    double bandwidth, bf16;
  };
  for (const Row& row : {Row{"H100", 3.35e12, 989.4e12}, Row{"A100", 2.039e12, 312e12}, Row{"H200", 4.8e12, 989.4e12},
                         Row{"L4", 0.3e12, 121e12}, Row{"MI300X", 5.3e12, 1307.4e12}, Row{"T4", 0.32e12, 65e12}}) {
    const auto device = find_device(row.name);
    ASSERT_TRUE(device) << row.name;
    EXPECT_DOUBLE_EQ(device->bandwidth, row.bandwidth) << row.name;
    EXPECT_DOUBLE_EQ(device->flops.bf16, row.bf16) << row.name;
  }
}

TEST(Catalogue, EntriesAreSane) {
  std::set<std::string> ids;
  for (const Device& device : known_devices()) {
    EXPECT_TRUE(ids.insert(device.id).second) << device.id;
    EXPECT_FALSE(device.source.empty()) << device.id;
    EXPECT_GT(device.usable_memory.value, device.nominal_memory.value * 8 / 10) << device.id;
    EXPECT_LE(device.flops.fp32, device.flops.bf16) << device.id;
    EXPECT_GE(device.bandwidth, 1e11) << device.id;
    // The ridge of the roofline of every real accelerator lies here; a factor of 1000 in a unit would not.
    EXPECT_GT(device.flops.bf16 / device.bandwidth, 30) << device.id;
    EXPECT_LT(device.flops.bf16 / device.bandwidth, 500) << device.id;
    const auto by_name = find_device(device.name);
    ASSERT_TRUE(by_name) << device.name;
    EXPECT_EQ(by_name->id, device.id);
  }
  EXPECT_GE(ids.size(), 12u);
}

TEST(FindDevice, ForgivesSpelling) {
  for (const char* name : {"h100", "H100-80GB", "NVIDIA H100", "NVIDIA H100 80GB HBM3", "h100_sxm5", " H100 "}) {
    const auto device = find_device(name);
    ASSERT_TRUE(device) << name;
    EXPECT_EQ(device->id, "h100") << name;
  }
  EXPECT_EQ(find_device("NVIDIA A100-SXM4-40GB")->id, "a100-40gb");
  EXPECT_EQ(find_device("NVIDIA GeForce RTX 3090")->id, "rtx3090");
  EXPECT_EQ(find_device("Tesla T4")->id, "t4");
}

TEST(FindDevice, NamesTheNearest) {
  const auto device = find_device("H10O");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  EXPECT_NE(device.error().message.find("h100"), std::string::npos) << device.error().message;
  EXPECT_FALSE(find_device(""));
  EXPECT_FALSE(find_device("nvidia"));
}

TEST(ParseDevices, RefusesWhatIsNoCatalogue) {
  for (const char* text :
       {"", "[]", "{}", "{\"devices\":[1]}", "{\"devices\":[{\"id\":\"x\"}]}", "{\"devices\":[{\"id\":\"\"}]}",
        "{\"devices\":[{\"id\":\"x\",\"memory_gb\":-1,\"usable_gib\":1,\"bandwidth_gb_s\":1}]}"}) {
    EXPECT_FALSE(parse_devices(text, "my.json")) << text;
  }
}

}  // namespace
}  // namespace ullage::hardware
