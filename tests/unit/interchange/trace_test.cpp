#include "mezzo/interchange/trace.h"

#include <gmock/gmock.h>

#include "mezzo/models/model.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::interchange {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const TracedCall& call : trace.calls) names.push_back(call.path + ":" + call.op->name);
  return names;
}

TEST(Trace, HasEveryCallWithItsModule) {
  const auto net = models::create("mlp", {.in_channels = 1, .image_size = 8});
  const Trace trace = trace_forward(*net, zeros({2, 1, 8, 8}));
  EXPECT_THAT(names_of(trace),
              ElementsAre(":reshape", "fc1:linear", ":relu", "fc2:linear", ":relu", "fc3:linear"));
}

TEST(Trace, FollowsTensorsFromCallToCall) {
  const auto net = models::create("mlp", {.in_channels = 1, .image_size = 8});
  const Trace trace = trace_forward(*net, zeros({2, 1, 8, 8}));
  const Tensor* last = trace.inputs.data();
  for (const TracedCall& call : trace.calls) {
    EXPECT_EQ(call.inputs[0].impl(), last->impl()) << call.op->name;
    last = call.outputs.data();
  }
  EXPECT_EQ(trace.outputs[0].impl(), last->impl());
  EXPECT_EQ(trace.calls[1].inputs[1].impl(), net->state()[0].tensor.impl());
}

TEST(Trace, LeavesTheNetworkInItsMode) {
  const auto net = models::create("resnet20", {.image_size = 8});
  trace_forward(*net, zeros({2, 3, 8, 8}));
  EXPECT_TRUE(net->is_training());
  EXPECT_TRUE(grad_enabled());
}

class Counter final : public CallListener {
 public:
  void on_finished(const FinishedCall& call) override { names.emplace_back(call.op.name); }

  std::vector<std::string> names;
};

TEST(ListenToCalls, TheInnermostListens) {
  Counter outer;
  Counter inner;
  const Tensor x = ones({2, 3});
  {
    const ListenToCalls first(outer);
    relu(x);
    {
      const ListenToCalls second(inner);
      add(x, x);
    }
    reshape(x, {6});
  }
  relu(x);
  EXPECT_THAT(outer.names, ElementsAre("relu", "reshape"));
  EXPECT_THAT(inner.names, ElementsAre("add"));
}

// Promotion first casts one of the inputs.
TEST(ListenToCalls, HearsOfCasts) {
  Counter counter;
  const Tensor x = ones({2, 3});
  const Tensor narrow = ones({2, 3}, DType::kBf16);
  const ListenToCalls listening(counter);
  add(x, narrow);
  EXPECT_THAT(counter.names, ElementsAre("cast", "add"));
}

}  // namespace
}  // namespace mezzo::interchange
