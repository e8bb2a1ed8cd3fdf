// Fuzzes the file of a precision plan.
#include "mezzo/tune/plan_file.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {

void read(Input input) {
  const amp::PrecisionPlan plan = amp::plan_of_text(text_of(input), "plan");
  // What was read can be written, and reads back the same.
  const std::string written = amp::plan_text(plan);
  require(amp::plan_text(amp::plan_of_text(written, "plan")) == written, "the plan comes back");
  // What was accepted can be obeyed by some network.
  amp::check_plan(plan);
  static_cast<void>(plan.policy());
}

std::vector<Bytes> seeds() {
  amp::PrecisionPlan plan{.model = "lenet5",
                          .machine = "CPU",
                          .threads = 2,
                          .batch = "128 of 3x32x32",
                          .step_ms = 1.5,
                          .error = 1e-3,
                          .error_budget = 0.1};
  plan.rows = {{.module = "fc",
                .op = "relu",
                .dtype = DType::kF16,
                .exact = true,
                .reason = "saves time",
                .overflowed = 0.5,
                .lost = 0.25},
               {.op = "relu", .dtype = DType::kBf16}};
  const auto bytes = [](const std::string& text) { return Bytes(text.begin(), text.end()); };
  return {bytes(amp::plan_text(plan)), bytes(amp::plan_text({.rows = {{.op = "relu"}}}))};
}

}  // namespace mezzo::fuzz
