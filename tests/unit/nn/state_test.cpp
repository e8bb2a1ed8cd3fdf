#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/nn/batch_norm.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using Floats = std::vector<float>;
using testing::ElementsAre;

TEST(State, IsInPyTorchsOrder) {
  const ExampleNet net;
  EXPECT_THAT(names_of(net.state()),
              ElementsAre("stem.weight", "stem.calls", "body.shift", "body.first.weight",
                          "body.first.calls", "body.second.weight", "body.second.calls"));
}

TEST(State, RoundTripCopiesTheValues) {
  ExampleNet from;
  ExampleNet to;
  for (const Tensor& parameter : from.parameters()) fill(parameter, 4);
  from(ones({2}));
  const Tensor weight = to.parameters()[0];
  to.load_state(from.state());
  EXPECT_EQ(to.parameters()[0].impl(), weight.impl()) << "values are copied, not handles";
  EXPECT_EQ(weight.to_vector<float>(), (Floats{4, 4}));
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_EQ(to.named_buffers()[0].tensor.item(), 1);
  fill(from.parameters()[0], 5);
  EXPECT_EQ(weight.to_vector<float>(), (Floats{4, 4}));
}

TEST(State, ChangesTheVersionOfAParameter) {
  Scale scale;
  const std::uint64_t version = scale.parameters()[0].version();
  scale.load_state(Scale(3).state());
  EXPECT_GT(scale.parameters()[0].version(), version) << "16-bit copies must become stale";
}

TEST(State, ConvertsFloatingTypes) {
  Scale scale;
  scale.load_state({{"weight", full({2}, 1.5, DType::kBf16)}, {"calls", full({}, 7, DType::kI32)}});
  EXPECT_EQ(scale.parameters()[0].dtype(), DType::kF32);
  EXPECT_EQ(scale.parameters()[0].to_vector<float>(), (Floats{1.5, 1.5}));
  EXPECT_EQ(scale.named_buffers()[0].tensor.item(), 7);
}

TEST(State, AllFaultsAreInOneMessageAndNothingChanges) {
  Pair net;
  const std::map<std::string, Tensor> state = {{"shift", full({2}, 8)},
                                               {"first.weight", ones({3})},
                                               {"first.calls", ones({})},
                                               {"head.bias", ones({1})},
                                               {"head.weight", ones({1})}};
  EXPECT_EQ(message_of([&] { net.load_state(state); }),
            "[load_state] the state does not fit the module; missing: second.weight, second.calls; "
            "unexpected: head.bias, head.weight; different: first.weight is f32[2] here but f32[3] "
            "there, first.calls is i64[] here but f32[] there. Load with strict = false to load "
            "only the names in common");
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), (Floats{1, 1}));
}

TEST(State, FilesFromBeforeBatchesWereCountedAreTaken) {
  BatchNorm2d from(2);
  fill(from.named_buffers()[1].tensor, 3);
  std::vector<NamedTensor> state = from.state();
  ASSERT_EQ(state.back().name, "num_batches_tracked");
  state.pop_back();
  BatchNorm2d to(2);
  to(randn({4, 2, 3, 3}));
  to.load_state(state);
  EXPECT_EQ(to.named_buffers()[1].tensor.to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(to.named_buffers()[2].tensor.item(), 1) << "what it had counted";
  state.pop_back();
  EXPECT_THAT(message_of([&] { to.load_state(state); }),
              testing::HasSubstr("missing: running_var."));
}

TEST(State, AMismatchOfManyNamesIsStillOneLine) {
  Scale scale;
  std::vector<NamedTensor> state = scale.state();
  for (int i = 0; i < 300; ++i) state.push_back({concat("layer", i), ones({1})});
  EXPECT_THAT(message_of([&] { scale.load_state(state); }),
              testing::HasSubstr("layer6, layer7 and 292 more. Load"));
}

// Names are arbitrary text, even text that separates the parts of a message.
TEST(State, AMismatchSaysTheDifferenceWithoutTheAdvice) {
  Scale scale;
  std::vector<NamedTensor> state = scale.state();
  state.push_back({"head; bias. Load", ones({1})});
  try {
    scale.load_state(state);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const StateMismatch& error) {
    EXPECT_EQ(error.difference(),
              "[load_state] the state does not fit the module; unexpected: head; bias. Load");
    EXPECT_THAT(error.what(), testing::StartsWith(error.difference() + ". Load with strict"));
  }
}

TEST(State, NotStrictTakesTheNamesInCommon) {
  Pair net;
  net.load_state({{"shift", full({2}, 8)}, {"other", ones({1})}}, false);
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), (Floats{8, 8}));
  EXPECT_THROW(net.load_state({{"shift", ones({3})}}, false), ArgumentError);
}

TEST(State, NamesMustBeUniqueAndDefined) {
  Scale scale;
  std::vector<NamedTensor> state = scale.state();
  state.push_back(state.front());
  EXPECT_EQ(message_of([&] { scale.load_state(state); }),
            "[load_state] weight appears twice. Keep one of them");
  EXPECT_EQ(message_of([&] {
              scale.load_state({{"weight", Tensor()}});
            }),
            "[load_state] weight is undefined. Leave it out");
}

}  // namespace
}  // namespace mezzo::nn
