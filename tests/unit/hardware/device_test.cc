#include "ullage/hardware/device.h"

#include <gtest/gtest.h>

#include <set>

#include "ullage/base/json.h"
#include "ullage/base/mapped_file.h"
#include "ullage/hardware/device_json.h"
#include "ullage/hardware/device_overrides.h"
#include "ullage/hardware/devices_json.h"

namespace ullage::hardware {
namespace {

TEST(Catalogue, IsTheFileInData) {
  const auto text = read_text_file(ULLAGE_SOURCE_DIR "/data/devices.json", 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_TRUE(*text == kDevicesJson) << "build again: the library holds another text than the file";
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

TEST(Catalogue, EntriesArePlausible) {
  std::set<std::string> ids;
  std::set<std::string> spellings;
  const std::vector<Device> devices = known_devices();
  for (const Device& device : devices) {
    EXPECT_TRUE(ids.insert(device.id).second) << device.id;
    EXPECT_FALSE(device.source.empty()) << device.id;
    EXPECT_NE(device.source.find("usable"), std::string::npos) << device.id << ": whence the usable memory?";
    // Makers count GB and mean GiB or not; 144 GiB is sold as 141 GB. Nothing is told more than 7 % over what is sold.
    EXPECT_LE(device.usable_memory.value, device.nominal_memory.value / 100 * 107) << device.id;
    EXPECT_GT(device.usable_memory.value, device.nominal_memory.value / 100 * 64) << device.id;
    EXPECT_LE(device.flops.fp32, device.flops.bf16) << device.id;
    EXPECT_GE(device.bandwidth, 1e10) << device.id;
    EXPECT_LE(device.bandwidth, 1e13) << device.id;
    // The ridge of every real device lies here; a factor of 1000 in a unit would not.
    const double lowest = device.category == "gpu" || device.category == "accelerator" ? 25 : 5;
    EXPECT_GT(ridge_flop_per_byte(device), lowest) << device.id;
    EXPECT_LT(ridge_flop_per_byte(device), 1000) << device.id;
    EXPECT_LT(device.link_bandwidth, device.bandwidth) << device.id;
    EXPECT_LT(device.host_bandwidth, device.bandwidth) << device.id;
    for (const std::string& name : [&] {
           std::vector<std::string> names = device.aliases;
           names.push_back(device.id);
           names.push_back(device.name);
           return names;
         }()) {
      const auto found = find_device(name, devices);
      ASSERT_TRUE(found) << name;
      EXPECT_EQ(found->id, device.id) << name << " names two devices";
    }
  }
  EXPECT_GE(ids.size(), 100u);
}

TEST(Catalogue, RatesAreDense) {
  for (const Device& device : known_devices()) {
    const FlopsPerSecond& flops = device.flops;
    // Matrix units do twice the work at half the width. Sparse figures beside dense ones would show as a factor of 4.
    const bool is_one_rate = device.id == "gaudi3" || device.id == "inferentia2";  // as their makers state
    if (flops.fp8 > 0 && !is_one_rate) {
      EXPECT_NEAR(flops.fp8 / flops.bf16, 2, 0.06) << device.id;
    }
    // Blackwell Ultra gave up other units for fp4: three times fp8.
    const bool is_ultra = device.id == "b300" || device.id == "gb300";
    // GeForce halves fp8 with fp32 accumulation, which is the rate stated, and not fp4.
    const bool is_geforce = device.name.find("GeForce") != std::string::npos;
    if (flops.fp4 > 0) {
      EXPECT_NEAR(flops.fp4 / flops.fp8, is_ultra ? 3 : is_geforce ? 4 : 2, 0.09) << device.id;
    }
    if (flops.int8 > 0 && !is_ultra) {
      EXPECT_GE(flops.int8 / flops.bf16, 0.45) << device.id;
      EXPECT_LE(flops.int8 / flops.bf16, 4.05) << device.id;
    }
  }
}

TEST(Catalogue, KnowsWhatPeopleHave) {
  for (const char* name : {"T4",
                           "V100",
                           "A10",
                           "A10G",
                           "A30",
                           "A40",
                           "A100",
                           "A100 40GB",
                           "A100-SXM4-80GB",
                           "NVIDIA A100 80GB PCIe",
                           "A6000",
                           "RTX 3060",
                           "RTX 3090",
                           "RTX 4060 Ti",
                           "RTX 4080",
                           "RTX 4090",
                           "RTX 5060 Ti",
                           "RTX 5070 Ti",
                           "RTX 5080",
                           "NVIDIA GeForce RTX 5090",
                           "NVIDIA RTX 6000 Ada Generation",
                           "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
                           "L4",
                           "L20",
                           "L40",
                           "L40S",
                           "H20",
                           "H100",
                           "H100 PCIe",
                           "H100 NVL",
                           "NVIDIA GH200 480GB",
                           "H200",
                           "H200 NVL",
                           "H800",
                           "A800",
                           "B200",
                           "B300",
                           "GB200",
                           "GB300",
                           "NVIDIA GB10",
                           "DGX Spark",
                           "Jetson AGX Orin",
                           "Jetson AGX Thor",
                           "MI210",
                           "MI250",
                           "MI250X",
                           "MI300A",
                           "AMD Instinct MI300X",
                           "MI325X",
                           "MI350X",
                           "MI355X",
                           "AMD Radeon RX 7900 XTX",
                           "W7900",
                           "Strix Halo",
                           "Gaudi 2",
                           "Gaudi 3",
                           "Max 1550",
                           "Intel Arc B580",
                           "Arc Pro B60",
                           "TPU v5e",
                           "TPU v6e",
                           "TPU v7",
                           "Ironwood",
                           "Trainium2",
                           "Apple M1",
                           "M2 Ultra",
                           "Apple M3 Max",
                           "M4 Pro 48GB",
                           "M5 Max",
                           "EPYC 9654",
                           "Genoa",
                           "Sapphire Rapids",
                           "Graviton4",
                           "Raspberry Pi 5"}) {
    EXPECT_TRUE(find_device(name)) << name;
  }
}

TEST(Catalogue, MemoryOptionsBecomeDevices) {
  EXPECT_EQ(find_device("m4-max-64gb")->nominal_memory, Bytes(64 * kGiB));
  EXPECT_EQ(find_device("Apple M4 Max")->nominal_memory, Bytes(128 * kGiB));  // the largest
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

TEST(FindDevice, ReadsListingsAndWordsInAnyOrder) {
  EXPECT_EQ(find_device("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3a1c)")->id, "h100");
  EXPECT_EQ(find_device("NVIDIA A100 80GB (SXM4)")->id, "a100-80gb");
  EXPECT_EQ(find_device("40GB PCIe A100")->id, "a100-pcie-40gb");
  // Words that are missing are not guessed, nor are listings of nothing.
  for (const char* name : {"80GB", "GPU 0:", "GPU 0: (UUID: x)", "SXM4", "(UUID"})
    EXPECT_FALSE(find_device(name)) << name;
}

TEST(FindDevice, NamesTheNearest) {
  const auto device = find_device("H10O");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  EXPECT_NE(device.error().message.find("h100"), std::string::npos) << device.error().message;
  EXPECT_FALSE(find_device(""));
  EXPECT_FALSE(find_device("nvidia"));
}

TEST(FindDeviceGroup, ReadsACountOnEitherSide) {
  const std::vector<Device> devices = known_devices();
  struct Row {
    const char* text;
    const char* id;
    int64_t count;
  };
  for (const Row& row : {Row{"H100", "h100", 1}, Row{"4xH100", "h100", 4}, Row{"H100x4", "h100", 4},
                         Row{"8 x MI300X", "mi300x", 8}, Row{"mi300x8", "mi300x", 8}, Row{"mi300xx8", "mi300x", 8},
                         Row{"2*RTX 4090", "rtx4090", 2}, Row{"RTX 7900 XTX", "", 0}, Row{"4x4090", "rtx4090", 4},
                         Row{"4090", "rtx4090", 1}, Row{"2xRTX PRO 6000", "rtx-pro-6000", 2}}) {
    const auto group = find_device_group(row.text, devices);
    if (row.count == 0) {
      EXPECT_FALSE(group) << row.text;
      continue;
    }
    ASSERT_TRUE(group) << row.text << ": " << group.error().message;
    EXPECT_EQ(group->device.id, row.id) << row.text;
    EXPECT_EQ(group->count, row.count) << row.text;
  }
  EXPECT_TRUE(find_device_group("1xH100", devices)->has_count);
  EXPECT_FALSE(find_device_group("H100", devices)->has_count);
}

TEST(FindDeviceGroup, SaysWhatIsWrong) {
  const std::vector<Device> devices = known_devices();
  const auto ambiguous = find_device_group("mi250x8", devices);
  ASSERT_FALSE(ambiguous);
  EXPECT_NE(ambiguous.error().message.find("8xmi250x"), std::string::npos) << ambiguous.error().message;
  for (const char* text : {"0xH100", "99999999999999999999xH100", "2000000xH100", "4x", "x4", "4xH1OO", "", "x"}) {
    const auto group = find_device_group(text, devices);
    ASSERT_FALSE(group) << text;
    EXPECT_EQ(group.error().where, "--device");
  }
}

TEST(MergeDevices, ChangesAndAdds) {
  // given a file with one field of a known device, and a device of the user's own
  const auto merged = merge_devices(known_devices(), R"({"devices": [
      {"id": "H100", "bandwidth_gb_s": 3000},
      {"id": "mine", "memory_gb": 10, "memory_unit": "GB", "usable_gib": 9, "bandwidth_gb_s": 100,
       "tflops": {"fp32": 1, "bf16": 2}, "link_gb_s": 25, "host_gb_s": 12.5}]})",
                                    "my.json");
  // then
  ASSERT_TRUE(merged) << merged.error().to_string();
  EXPECT_EQ(merged->size(), known_devices().size() + 1);
  const auto h100 = find_device("h100", *merged);
  EXPECT_DOUBLE_EQ(h100->bandwidth, 3e12);
  EXPECT_DOUBLE_EQ(h100->flops.bf16, 989.4e12);
  const auto mine = find_device("mine", *merged);
  EXPECT_EQ(mine->nominal_memory, Bytes(10'000'000'000));
  EXPECT_EQ(mine->usable_memory, Bytes(9 * kGiB));
  EXPECT_DOUBLE_EQ(mine->link_bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(mine->host_bandwidth, 12.5e9);
}

TEST(MergeDevices, LocatesErrors) {
  struct Row {
    const char* text;
    const char* where;
  };
  for (const Row& row :
       {Row{R"({"devices":[{"id":"x"}]})", "my.json#/devices/0"},
        Row{R"({"devices":[{"id":"h100","bandwidth_gb_s":-1}]})", "my.json#/devices/0/bandwidth_gb_s"},
        Row{R"({"devices":[{"id":"h100","bandwidth_gb_s":1e300}]})", "my.json#/devices/0/bandwidth_gb_s"},
        Row{R"({"devices":[{"id":"h100","bandwidth_gb_s":"fast"}]})", "my.json#/devices/0/bandwidth_gb_s"},
        Row{R"({"devices":[{"id":"h100","memory_unit":"MB"}]})", "my.json#/devices/0/memory_unit"},
        Row{R"({"devices":[{"id":"h100","category":"toaster"}]})", "my.json#/devices/0/category"},
        Row{R"({"devices":[{"id":"h100","tflops":3}]})", "my.json#/devices/0/tflops"},
        Row{R"({"devices":[{"id":"h100","usable_bytes":0}]})", "my.json#/devices/0/usable_bytes"},
        Row{R"({"devices":[{"id":"y","memory_gb":1,"usable_gib":1,"bandwidth_gb_s":1}]})",
            "my.json#/devices/0/tflops/bf16"},
        Row{R"({"devices":[{"id":"h100"},{"id":"z","memory_options":[]}]})", "my.json#/devices/1/memory_options"}}) {
    const auto merged = merge_devices(known_devices(), row.text, "my.json");
    ASSERT_FALSE(merged) << row.text;
    EXPECT_EQ(merged.error().where, row.where) << merged.error().message;
  }
  const char* twice = R"({"devices":[{"id":"y","memory_gb":1,"usable_gib":1,"bandwidth_gb_s":1,"tflops":{"bf16":1}},
                                     {"id":"Y","memory_gb":1,"usable_gib":1,"bandwidth_gb_s":1,"tflops":{"bf16":1}}]})";
  EXPECT_FALSE(merge_devices(known_devices(), twice, "my.json"));
}

TEST(DeviceJson, IsReadBack) {
  Json list = Json::array();
  const std::vector<Device> devices = known_devices();
  for (const Device& device : devices) list.push_back(device_json(device));
  const auto again = parse_devices(dump_json(Json{{"devices", list}}), "again.json");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(*again, devices);
}

TEST(OverrideDevice, ChangesWhatIsGiven) {
  const Device h100 = *find_device("h100");
  const auto slow = override_device(h100, {.memory = Bytes(40 * kGiB),
                                           .bandwidth = 2.5e12,
                                           .flops = 494.7e12,
                                           .link_bandwidth = 0.0,
                                           .host_bandwidth = 25e9});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->usable_memory, Bytes(40 * kGiB));
  EXPECT_DOUBLE_EQ(slow->bandwidth, 2.5e12);
  EXPECT_DOUBLE_EQ(slow->flops.bf16, 494.7e12);
  EXPECT_NEAR(slow->flops.fp8, h100.flops.fp8 / 2, 1e6);
  EXPECT_DOUBLE_EQ(slow->link_bandwidth, 0);
  EXPECT_NE(slow->source.find("by the user: memory, bandwidth, FLOP/s, links, host link"), std::string::npos);
  EXPECT_EQ(*override_device(h100, {}), h100);
}

TEST(OverrideDevice, RefusesNonsense) {
  const Device h100 = *find_device("h100");
  EXPECT_EQ(override_device(h100, {.memory = Bytes(0)}).error().where, "--memory");
  EXPECT_EQ(override_device(h100, {.bandwidth = 0.0}).error().where, "--bandwidth");
  EXPECT_EQ(override_device(h100, {.flops = -1.0}).error().where, "--flops");
  EXPECT_EQ(override_device(h100, {.flops = 1e300}).error().where, "--flops");
  EXPECT_EQ(override_device(h100, {.link_bandwidth = -1.0}).error().where, "--link-bandwidth");
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
