// Tests the state of networks whose modules share tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/module.h"
#include "mezzo/ops/matmul.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using Floats = std::vector<float>;
using State = std::vector<NamedTensor>;
using testing::Each;
using testing::HasSubstr;

// A linear layer whose weight and statistic belong to another module.
class Head : public Module {
 public:
  Head(const Tensor& weight, const Tensor& statistic) : weight_(weight), statistic_(statistic) {
    add_parameter("weight", weight_);
    add_buffer("statistic", statistic_);
  }
  Tensor forward(const Tensor& x) override { return matmul(x, weight_, {.transpose_b = true}); }

 private:
  Tensor weight_;
  Tensor statistic_;
};

// Parameters `embed.weight`, `first.weight` and `second.weight` are one tensor; so are two buffers.
class Tied : public Module {
 public:
  Tied() {
    add("embed", embed_);
    add("first", first_);
    add("second", second_);
  }
  Tensor forward(const Tensor& tokens) override { return second_(first_(embed_(tokens))); }

  Floats weight() const { return embed_.weight().to_vector<float>(); }
  double statistic() const { return statistic_.item(); }

 private:
  Embedding embed_{2, 2};
  Tensor statistic_ = zeros({});
  Head first_{embed_.weight(), statistic_};
  Head second_{embed_.weight(), statistic_};
};

TEST(SharedState, HasEveryNameAndEveryTensorOnce) {
  const Tied net;
  EXPECT_EQ(net.state().size(), 5);
  EXPECT_EQ(net.parameters().size(), 1);
  EXPECT_EQ(net.named_buffers().size(), 1);
}

TEST(SharedState, AnyOneNameIsEnough) {
  for (const char* weight : {"embed.weight", "first.weight", "second.weight"}) {
    for (const char* statistic : {"first.statistic", "second.statistic"}) {
      Tied net;
      net.load_state({{weight, full({2, 2}, 3)}, {statistic, full({}, 7)}});
      EXPECT_THAT(net.weight(), Each(3)) << weight;
      EXPECT_EQ(net.statistic(), 7) << statistic;
    }
  }
}

TEST(SharedState, NoNameIsNotEnough) {
  Tied net;
  EXPECT_THAT(message_of<StateMismatch>([&] {
                net.load_state({{"first.weight", ones({2, 2})}});
              }),
              HasSubstr("missing: first.statistic, second.statistic. Load"));
  net.load_state({{"first.weight", ones({2, 2})}}, false);
  EXPECT_THAT(net.weight(), Each(1));
}

// The format of older versions.
TEST(SharedState, EveryNameWithTheSameValueIsFine) {
  Tied net;
  net.load_state({{"embed.weight", full({2, 2}, 2)},
                  {"first.weight", full({2, 2}, 2, DType::kBf16)},
                  {"second.weight", full({2, 2}, 2)},
                  {"first.statistic", full({}, 5)},
                  {"second.statistic", full({}, 5)}});
  EXPECT_THAT(net.weight(), Each(2));
}

TEST(SharedState, TwoValuesAreAnErrorThatNamesBoth) {
  for (const bool strict : {true, false}) {
    Tied net;
    const Floats before = net.weight();
    const State state = {{"embed.weight", zeros({2, 2})},
                         {"second.weight", ones({2, 2})},
                         {"first.statistic", full({}, 1)},
                         {"second.statistic", full({}, 2)}};
    EXPECT_EQ(message_of<StateMismatch>([&] { net.load_state(state, strict); }),
              "[load_state] the state does not fit the module; two values of one tensor: "
              "embed.weight and second.weight, first.statistic and second.statistic. Leave one of "
              "the two names out");
    EXPECT_EQ(net.weight(), before);
    EXPECT_EQ(net.statistic(), 0);
  }
}

// The other name of a loaded tensor brings nothing that would be lost.
TEST(SharedState, AnAliasThatTheNetworkDoesNotHaveIsNotUnexpected) {
  Embedding embedding(2, 2);
  const Tensor weight = full({2, 2}, 4);
  embedding.load_state({{"weight", weight}, {"head.weight", weight}});
  EXPECT_THAT(embedding.weight().to_vector<float>(), Each(4));
  EXPECT_THAT(message_of<StateMismatch>([&] {
                embedding.load_state({{"weight", weight}, {"head.weight", full({2, 2}, 4)}});
              }),
              HasSubstr("unexpected: head.weight"));
}

// Two equal tensors are not the same tensor.
TEST(SharedState, TwoTensorsNeedTwoValues) {
  BatchNorm2d norm(1);
  EXPECT_THAT(message_of<StateMismatch>([&] {
                norm.load_state({{"weight", ones({1})}});
              }),
              HasSubstr("missing: bias, running_mean, running_var. Load"));
}

}  // namespace
}  // namespace mezzo::nn
