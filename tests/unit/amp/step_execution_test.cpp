#include "mezzo/amp/step_execution.h"

#include <gtest/gtest.h>

#include "mezzo/core/tensor.h"

namespace mezzo::amp {
namespace {

// Copies from lvalues, const or not.
TEST(StepExecution, IsCopied) {
  int runs = 0;
  StepExecution made([&runs](const StepBody& body, const StepMode&, std::span<const Tensor> batch) {
    ++runs;
    body(batch);
  });
  // NOLINTBEGIN(performance-unnecessary-copy-initialization): copies are what is tested
  StepExecution copy = made;
  const StepExecution fixed = copy;
  // NOLINTEND(performance-unnecessary-copy-initialization)
  StepExecution assigned;
  EXPECT_FALSE(assigned);
  assigned = copy;
  int bodies = 0;
  const StepBody body = [&bodies](std::span<const Tensor>) { ++bodies; };
  const Tensor batch[] = {zeros({1}), zeros({1})};
  for (const StepExecution& execution : {made, copy, StepExecution(fixed), assigned}) {
    execution(body, StepMode(), batch);
  }
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(bodies, 4);
}

}  // namespace
}  // namespace mezzo::amp
