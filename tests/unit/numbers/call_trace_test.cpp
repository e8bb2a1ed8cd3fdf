// Tests where the numbers of a step are said to come from.
#include "mezzo/numbers/call_trace.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/amp/observed_calls.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::numbers {
namespace {

struct Tracer final : amp::StepObserver {
  void on_call(const amp::ObservedStepCall& call) override { trace.add(call); }
  CallTrace trace;
};

TEST(CallTrace, FollowsViewsToWhatTheyAreOf) {
  const Tensor weight = full({4}, 2);
  const Tensor batch = full({2, 2}, 3);
  Tracer tracer;
  tracer.trace.sources().name(weight, Source::kParameter, "fc.weight");
  tracer.trace.sources().name(batch, Source::kBatch, "input 0");
  {
    const amp::ObservedCalls observed({&tracer});
    const Tensor a = reshape(weight, {2, 2}) * batch;
    static_cast<void>(exp(flatten(a, 0)));
  }
  const auto& calls = tracer.trace.calls();
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(calls[0].inputs[0].source, Source::kParameter);
  EXPECT_EQ(calls[0].inputs[0].name, "fc.weight");
  EXPECT_EQ(calls[0].inputs[1].source, Source::kBatch);
  EXPECT_EQ(calls[1].inputs[0].source, Source::kCall);
  EXPECT_EQ(calls[1].inputs[0].call, 0);
  EXPECT_EQ(calls[1].inputs[0].range.high, 6);
  EXPECT_FALSE(tracer.trace.origin().has_value());
}

TEST(CallTrace, TheOriginIsTheFirstBadCallOfThoseThatReachTheEnd) {
  Tracer tracer;
  {
    const amp::ObservedCalls observed({&tracer});
    const Tensor x = full({3}, 100);
    const Tensor bad = exp(x);          // call 0
    const Tensor worse = bad * 0;       // call 1
    static_cast<void>(sum(worse + x));  // calls 2 and 3
  }
  EXPECT_EQ(tracer.trace.origin(), 0);
}

}  // namespace
}  // namespace mezzo::numbers
