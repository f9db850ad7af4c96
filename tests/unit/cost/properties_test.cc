#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/cost/shapes.h"
#include "ullage/base/random.h"
#include "ullage/cost/crossovers.h"
#include "ullage/cost/efficiency.h"
#include "ullage/cost/measured_row.h"
#include "ullage/cost/serving.h"

namespace ullage::cost {
namespace {

model::ModelShape with_experts() {
  model::ModelShape shape = dense(6, 1024, 2048, heads(16, 4, 64), 32000);
  model::MoeFfn moe;
  moe.num_experts = 64;
  moe.num_experts_per_token = 4;
  moe.intermediate_size = 512;
  for (size_t i = 1; i < shape.layers.size(); ++i) shape.layers[i].ffn = moe;
  return shape;
}

std::vector<WorkItem> random_items(RandomStream& random) {
  std::vector<WorkItem> items;
  for (uint64_t i = 0, n = 1 + random.below(6); i < n; ++i) {
    items.push_back(WorkItem{static_cast<int64_t>(random.below(5000)), 1 + static_cast<int64_t>(random.below(600)),
                             true, 1 + static_cast<int64_t>(random.below(20))});
  }
  return items;
}

TEST(Properties, MoreTokensAreNeverCheaper) {
  RandomStream random(3);
  for (const Efficiency& efficiency : {Efficiency{}, find_calibration("vllm", "h100").efficiency}) {
    StepCostOptions options;
    options.efficiency = efficiency;
    const StepCostModel model = *make_step_cost_model(with_experts(), *hardware::find_device("h100"), options);
    for (int round = 0; round < 200; ++round) {
      std::vector<WorkItem> items = random_items(random);
      const StepCost before = step_cost(model, items);
      WorkItem& grown = items[random.below(items.size())];
      switch (random.below(3)) {
        case 0:
          grown.num_tokens += 1 + static_cast<int64_t>(random.below(100));
          if (grown.num_tokens > 1) break;
          [[fallthrough]];
        case 1:
          grown.first_position += 1 + static_cast<int64_t>(random.below(100));
          break;
        default:
          ++grown.count;
      }
      const StepCost after = step_cost(model, items);
      EXPECT_GE(after.seconds, before.seconds);
      EXPECT_GE(after.weight_bytes, before.weight_bytes);
    }
  }
}

TEST(Properties, RanksNeverReadMore) {
  RandomStream random(4);
  const hardware::Device device = *hardware::find_device("h100");
  for (int round = 0; round < 50; ++round) {
    const std::vector<WorkItem> items = random_items(random);
    double bytes = 1e300;
    for (const int64_t tensor : {1, 2, 4, 8, 16}) {
      StepCostOptions options;
      options.parallelism.tensor = tensor;
      const StepCost cost = step_cost(*make_step_cost_model(with_experts(), device, options), items);
      const double now = cost.weight_bytes + cost.kv_read_bytes + cost.kv_write_bytes;
      EXPECT_LE(now, bytes);
      EXPECT_EQ(tensor > 1, cost.communication_seconds > 0);
      bytes = now;
    }
  }
}

TEST(Properties, SerialKernelsTakeAtLeastTheRoofline) {
  RandomStream random(6);
  StepCostOptions together;
  StepCostOptions serial;
  serial.efficiency.has_serial_kernels = true;
  const hardware::Device device = *hardware::find_device("h100");
  const StepCostModel a = *make_step_cost_model(with_experts(), device, together);
  const StepCostModel b = *make_step_cost_model(with_experts(), device, serial);
  for (int round = 0; round < 50; ++round) {
    const std::vector<WorkItem> items = random_items(random);
    const StepCost lower = step_cost(a, items);
    const StepCost upper = step_cost(b, items);
    EXPECT_GE(upper.seconds, lower.seconds * (1 - 1e-12));
    EXPECT_LE(upper.seconds, (lower.memory_seconds + lower.compute_seconds) * (1 + 1e-12));
  }
}

TEST(Properties, AllReducesSendWhatARingSends) {
  StepCostOptions options;
  options.parallelism.tensor = 4;
  options.efficiency.link_latency = 1e-5;
  const hardware::Device device = *hardware::find_device("h100");
  const StepCost cost =
      step_cost(*make_step_cost_model(llama_8b(), device, options), std::vector<WorkItem>{{0, 100, true}});
  EXPECT_DOUBLE_EQ(cost.communication_bytes, 100 * 32 * 2 * 4096 * 2.0 * 2 * 3 / 4);
  EXPECT_NEAR(cost.communication_seconds, cost.communication_bytes / device.link_bandwidth + 64e-5, 1e-12);
}

TEST(Properties, AStageIsTheHeaviestAndAllStagesAreWaitedFor) {
  StepCostOptions options;
  options.parallelism.pipeline = 4;
  const hardware::Device device = *hardware::find_device("h100");
  const StepCostModel stage = *make_step_cost_model(llama_8b(), device, options);
  const StepCostModel whole = *make_step_cost_model(llama_8b(), device, StepCostOptions{});
  EXPECT_NEAR(stage.layer_weight_bytes / whole.layer_weight_bytes, 0.25, 1e-4);
  const StepCost cost = step_cost(stage, std::vector<WorkItem>{{1000, 1, true, 8}});
  EXPECT_GE(cost.latency_seconds, 4 * cost.seconds);
  EXPECT_LT(cost.latency_seconds, 4.1 * cost.seconds);
}

TEST(Serving, OneClientSeesBareSteps) {
  const StepCostModel model = *make_step_cost_model(llama_8b(), *hardware::find_device("h100"), StepCostOptions{});
  ServingPoint point;
  point.prompt_tokens = 1000;
  point.output_tokens = 100;
  const ServingTimes times = serving_times(model, point);
  EXPECT_DOUBLE_EQ(times.tpot_seconds, decode_cost(model, 1, 1050).seconds);
  EXPECT_EQ(times.running, 1);
  EXPECT_GT(times.ttft_seconds, prefill_cost(model, 1000).seconds);
}

// Steps one after another, each carrying the chunk of a prompt whenever one waits, must give the same mean.
TEST(Serving, AgreesWithStepsPlayedOneByOne) {
  const StepCostModel model = *make_step_cost_model(llama_8b(), *hardware::find_device("h100"), StepCostOptions{});
  constexpr int64_t kClients = 24, kPrompt = 2000, kOutput = 200;
  struct Client {
    int64_t left = 0;  // output tokens
    double began = 0;
  };
  std::vector<Client> running;
  for (int64_t i = 0; i + 1 < kClients; ++i) running.push_back(Client{1 + i * kOutput / kClients, 0});
  int64_t waiting = 1;
  double now = 0, sum = 0;
  int64_t num_ended = 0;
  for (int step = 0; step < 4000; ++step) {
    std::vector<WorkItem> items;
    for (const Client& client : running) items.push_back(WorkItem{kPrompt + kOutput - client.left, 1, true, 1});
    const bool has_prompt = waiting > 0;
    if (has_prompt) items.push_back(WorkItem{0, kPrompt, true, 1});
    now += step_cost(model, items).seconds;
    for (Client& client : running) --client.left;
    for (size_t i = running.size(); i-- > 0;) {
      if (running[i].left > 0) continue;
      if (running[i].began > 0) {
        sum += (now - running[i].began) / kOutput;
        ++num_ended;
      }
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      ++waiting;
    }
    if (has_prompt) {
      --waiting;
      running.push_back(Client{kOutput, now});
    }
  }
  ServingPoint point;
  point.concurrency = kClients;
  point.prompt_tokens = kPrompt;
  point.output_tokens = kOutput;
  ASSERT_GT(num_ended, 100);
  EXPECT_NEAR(serving_times(model, point).tpot_seconds / (sum / static_cast<double>(num_ended)), 1, 0.02);
}

TEST(Serving, WhatDoesNotFitQueues) {
  const StepCostModel model = *make_step_cost_model(llama_8b(), *hardware::find_device("h100"), StepCostOptions{});
  ServingPoint point;
  point.concurrency = 64;
  point.prompt_tokens = 1000;
  point.output_tokens = 500;
  const ServingTimes all = serving_times(model, point);
  point.max_running = 16;
  const ServingTimes few = serving_times(model, point);
  EXPECT_EQ(few.running, 16);
  EXPECT_LT(few.tpot_seconds, all.tpot_seconds);
  EXPECT_GT(few.ttft_seconds, 3 * 500 * few.tpot_seconds);
}

TEST(Efficiency, EveryCalibrationStatesItsErrorAndWorks) {
  const hardware::Device device = *hardware::find_device("h100");
  for (const Calibration& each : calibrations()) {
    StepCostOptions options;
    options.efficiency = each.efficiency;
    EXPECT_TRUE(make_step_cost_model(llama_8b(), device, options)) << each.engine << " " << each.device;
    EXPECT_GT(each.tpot_error, 0);
    EXPECT_GE(each.tpot_error_p90, each.tpot_error);
    EXPECT_FALSE(each.evidence.empty());
    EXPECT_EQ(each.num_stated > 0, !each.device.empty());
    if (!each.device.empty()) {
      EXPECT_TRUE(hardware::find_device(each.device)) << each.device;
    }
  }
}

TEST(Efficiency, StandsInWhereNothingWasMeasured) {
  EXPECT_EQ(find_calibration("vllm", "h200").device, "h200");
  EXPECT_EQ(find_calibration("vllm", "t4").engine, "vllm");
  EXPECT_EQ(find_calibration("vllm", "t4").device, "");
  EXPECT_EQ(find_calibration("another", "h200").engine, "");
  EXPECT_EQ(find_calibration("splitwise", "t4").engine, "");
}

TEST(MeasuredRow, ReadsHowDevicesAreCounted) {
  MeasuredRow row;
  row.system = "b200_sxm";
  row.precision = "fp8";
  row.prompt_tokens = row.output_tokens = 1024;
  row.batch_size = 16;
  row.tp_size = 8;
  row.moe_ep_size = 8;
  row.moe_tp_size = 1;
  row.attention_dp_size = 1;
  EXPECT_EQ(row_setting(row)->parallelism.tensor, 8);
  EXPECT_TRUE(row_setting(row)->parallelism.has_expert_parallel);
  EXPECT_EQ(row_setting(row)->device, "b200");
  row.tp_size = 64;  // tensor and expert ranks of the same eight devices
  row.moe_tp_size = 8;
  EXPECT_EQ(row_setting(row)->parallelism.tensor, 8);
  row.tp_size = 1;
  row.attention_dp_size = 64;
  EXPECT_EQ(row_setting(row)->parallelism.tensor, 1);
  EXPECT_EQ(row_setting(row)->parallelism.data, 8);
  row.tp_size = row.attention_dp_size = 2;
  row.moe_tp_size = 1;
  row.moe_ep_size = 4;
  EXPECT_EQ(row_setting(row)->parallelism.num_devices(), 2);
  row.batch_size = 0;
  EXPECT_FALSE(row_setting(row));
}

TEST(MeasuredRow, PredictsBothTiers) {
  MeasuredRow row;
  row.backend = "trtllm";
  row.system = "h100_sxm";
  row.prompt_tokens = 1024;
  row.output_tokens = 512;
  row.batch_size = 32;
  row.tp_size = 1;
  // One row of AIConfigurator's measurements (Apache-2.0): Llama-3.1-8B in bf16, 9.88 ms a token.
  const auto predictions = predict_row(llama_8b(), *hardware::find_device("h100"), row, 0);
  ASSERT_TRUE(predictions);
  EXPECT_LT(predictions->modelled.tpot_seconds, predictions->calibrated.tpot_seconds);
  EXPECT_NEAR(predictions->calibrated.tpot_seconds * 1e3, 9.88, 0.12 * 9.88);
}

TEST(MeasuredRow, PredictsBatchesThatWereTimedApart) {
  // Two rows of splitwise-sim's measurements (MIT), ms: Llama-2-70B on 4 H100, 4 prompts of 512: 195.3, then 29.92 a
  // token.
  const Calibration& known = find_calibration("splitwise", "h100");
  const auto batch =
      predict_batch(*splitwise_shape("llama2-70b"), *hardware::find_device("h100"), known.efficiency, 4, 4, 512, 128);
  ASSERT_TRUE(batch);
  EXPECT_NEAR(batch->prompt_seconds * 1e3, 195.3, 0.3 * 195.3);
  EXPECT_NEAR(batch->token_seconds * 1e3, 29.92, 0.2 * 29.92);
  EXPECT_NEAR(static_cast<double>(model::count_parameters(*splitwise_shape("bloom-176b")).total()), 176e9, 1e9);
  EXPECT_FALSE(splitwise_shape("bloom"));
}

TEST(MeasuredRow, Fp4LeavesAttentionOfExpertModels) {
  const model::ModelShape fp4 = *shape_in_precision(with_experts(), "fp4");
  for (const model::WeightMatrix& matrix : model::weight_matrices(fp4)) {
    if (matrix.role == model::WeightRole::kExperts) {
      EXPECT_EQ(matrix.format.element_bits, 4) << matrix.name;
    } else if (matrix.role == model::WeightRole::kAttention) {
      EXPECT_EQ(matrix.format.element_bits, 16) << matrix.name;
    }
  }
  EXPECT_FALSE(shape_in_precision(llama_8b(), "fp3"));
}

}  // namespace
}  // namespace ullage::cost
