// The real executor: a model's weights, the paged KV cache and the kernels, on this machine's cores.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ullage/base/result.h"
#include "ullage/base/units.h"
#include "ullage/cpu/kernels.h"
#include "ullage/engine/executor.h"
#include "ullage/model/checkpoint.h"

namespace ullage::cpu {

struct CpuOptions {
  int64_t num_threads = 0;                      // 0 = all cores this process may run on
  model::DType kv_dtype = model::DType::kBF16;  // kBF16, kF16 or kF32
  int64_t block_size = 16;                      // tokens
  int64_t num_blocks = 0;                       // the null block included
  int64_t max_num_batched_tokens = 2048;        // tokens in a step: sizes the workspace
  int64_t max_num_seqs = 128;
  int64_t max_model_len = 0;  // positions a request may have; 0 = the model's
  Isa isa = Isa::kAuto;       // instruction set of the kernels
};

// Bytes that the executor allocated, by role; the roles sum to what it allocated (invariant 8).
struct CpuMemory {
  int64_t weights_bytes = 0;   // mapped from the file, as stored
  int64_t repacked_bytes = 0;  // weights rewritten for the kernels
  int64_t kv_pool_bytes = 0;
  int64_t workspace_bytes = 0;  // activations, logits, attention scratch
  int64_t total_allocated() const {
    return repacked_bytes + kv_pool_bytes + workspace_bytes;
  }  // all but what is mapped
};

class CpuExecutor final : public engine::Executor {
 public:
  // Maps and prepares the weights and allocates pool and workspace. The checkpoint outlives the executor.
  static Result<std::unique_ptr<CpuExecutor>> create(const model::Checkpoint& checkpoint, const CpuOptions& options);
  ~CpuExecutor() override;

  Result<sched::StepResult> execute(const sched::StepPlan& plan) override;
  const std::string& device_kind() const override;
  const CpuMemory& memory() const;
  // Bytes that the allocator handed out, counted there and not by role.
  int64_t allocated_bytes() const;
  // Logits of the last sampled request of the last step, [vocab_size]; for tests and `ullage eval`.
  std::span<const float> last_logits() const;

 private:
  struct State;
  explicit CpuExecutor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Memory this process may use (cgroup limits included), now.
Bytes available_memory();

}  // namespace ullage::cpu
