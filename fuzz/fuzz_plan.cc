// Plan documents, pasted server lines and sweeps: whatever comes in, an answer or an Error comes out. The first byte
// says which of them the rest is.
#include <cstdlib>
#include <string>
#include <string_view>

#include "ullage/api/explain.h"
#include "ullage/api/plan.h"
#include "ullage/api/plan_words.h"
#include "ullage/api/serve_line.h"
#include "ullage/api/sweep.h"
#include "ullage/base/json.h"

using namespace ullage;
using namespace ullage::api;

namespace {

// A printed line names the same model and no lever that the first did not have.
void print_and_read_again(const PlanWords& words) {
  for (const char* policy : {"vllm", "sglang", "llama.cpp", "ullage"}) {
    const auto printed = print_serve_line(policy, words.model, words.levers);
    if (!printed) std::abort();
    const auto again = parse_serve_line(printed->line, "again");
    if (again && again->levers.all().size() > words.levers.all().size() + 2) std::abort();
  }
}

void check_line(std::string_view line) {
  const auto words = parse_plan_line(line, "line");
  if (!words) return;
  print_and_read_again(*words);
  PlanInput input;
  input.levers = words->levers;
  if (has_model_numbers(input.levers)) {
    const auto answer = api::plan(input, {.has_derivation = true});
    if (answer) (void)plan_text(*answer, {});
  }
}

void check_sweep(std::string_view text) {
  const size_t space = text.find(' ');
  const auto axis = parse_sweep_axis(text.substr(0, space), "--sweep");
  if (!axis || axis->values.empty()) return;
  PlanInput input;
  const auto words = parse_plan_line("--layers 2 --kv-heads 2 --head-dim 64 --hidden 256 --device h100", "");
  input.levers = words->levers;
  auto sweep = Sweep::make(input, {*axis}, [](const std::string&) -> Result<std::shared_ptr<const PlanModel>> {
    return Error{ErrorCode::kNotFound, "no models here", ""};
  });
  if (!sweep) return;
  for (int i = 0; i < 4 && !sweep->is_done(); ++i) {
    const auto row = sweep->next();
    if (row.size() != sweep->columns().size()) std::abort();
    if (!parse_json(json_line(sweep->columns(), row), "row")) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      if (!parse_json(plan_document(rest), "answer")) std::abort();
      break;
    case 1:
      if (!parse_json(explain_document(rest), "answer")) std::abort();
      break;
    case 2:
      check_line(rest);
      break;
    case 3:
      check_sweep(rest);
      break;
  }
  return 0;
}
