// Tests what a listener hears of gradients during a backward pass.
#include "mezzo/autograd/leaf_listener.h"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/custom_function.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/module.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

Tensor leaf(double value) {
  Tensor tensor = full({3}, value);
  tensor.set_requires_grad(true);
  return tensor;
}

// Remembers the leaves, and their gradients at that moment.
class Heard final : public LeafListener {
 public:
  void on_complete(const Tensor& leaf) override {
    leaves.push_back(leaf.impl());
    grads.push_back(leaf.grad().defined() ? leaf.grad().to_vector<float>()[0] : -1);
  }
  std::vector<const TensorImpl*> leaves;
  std::vector<float> grads;
};

TEST(LeafListener, HearsOfEachLeafOnceInTheOrderOfTheBackwardPass) {
  const Tensor a = leaf(1), b = leaf(2), c = leaf(3);
  const Tensor loss = sum((a * b) * c);
  Heard heard;
  const ListenToLeaves listening(&heard);
  loss.backward();
  ASSERT_EQ(heard.leaves.size(), 3U);
  EXPECT_EQ(heard.leaves[0], c.impl());
  EXPECT_EQ(heard.grads[0], 2);
}

// `a` is used by the newest and by the oldest operation.
TEST(LeafListener, HearsAfterTheLastUse) {
  const Tensor a = leaf(2), b = leaf(3);
  const Tensor loss = sum((a * b) * a);
  Heard heard;
  const ListenToLeaves listening(&heard);
  loss.backward();
  ASSERT_EQ(heard.leaves.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(heard.grads[i], heard.leaves[i] == a.impl() ? 12 : 4);
  }
}

TEST(LeafListener, HearsNothingOfLeavesThatAreNotReachedNorOfGrad) {
  const Tensor a = leaf(2), b = leaf(3);
  const Tensor unused = b * b;
  Heard heard;
  const ListenToLeaves listening(&heard);
  sum(a * a).backward();
  EXPECT_EQ(heard.leaves, std::vector<const TensorImpl*>{a.impl()});
  const Tensor other = sum(a * b);
  static_cast<void>(grad({&other, 1}, std::vector{a}));
  EXPECT_EQ(heard.leaves.size(), 1U);
}

class Block : public nn::Module {
 public:
  Block() { add("linear", linear_); }
  Tensor forward(const Tensor& x) override { return linear_(linear_(x)); }

 private:
  nn::Linear linear_{3, 3};
};

class Net : public nn::Module {
 public:
  Net() { add("block", block_); }
  Tensor forward(const Tensor& x) override { return block_(x); }
  Block& block() { return block_; }

 private:
  Block block_;
};

// The weights are used in passes within the backward pass, and once outside of them.
TEST(LeafListener, HearsOfRecomputedWeightsWhenTheyAreComplete) {
  Net net;
  nn::recompute(net.block());
  const Tensor weight = net.named_parameters()[0].tensor;
  const Tensor x = leaf(1);
  const Tensor loss = sum(net(x) * sum(weight));
  Heard heard;
  const ListenToLeaves listening(&heard);
  loss.backward();
  ASSERT_EQ(heard.leaves.size(), 3U);
  const auto at = std::ranges::find(heard.leaves, weight.impl()) - heard.leaves.begin();
  EXPECT_EQ(heard.grads.at(static_cast<std::size_t>(at)), weight.grad().to_vector<float>()[0]);
}

// A gradient of one's own may walk another graph, and add to gradients that seemed complete.
TEST(LeafListener, HearsNothingBeforeGradientsOfUsers) {
  const Tensor weight = leaf(2), x = leaf(3);
  const amp::CustomFunction same(
      [](amp::FunctionContext&, std::span<const Tensor> in) { return std::vector{in[0] * 1.0}; },
      [&](amp::FunctionContext&, std::span<const Tensor> grads) {
        const GradMode recording(true);
        sum(weight * 10.0).backward();
        return std::vector{grads[0]};
      });
  const Tensor loss = sum(same({x})[0] * weight);
  Heard heard;
  const ListenToLeaves listening(&heard);
  loss.backward();
  ASSERT_EQ(heard.leaves.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(heard.grads[i], heard.leaves[i] == weight.impl() ? 3 + 10 : 2);
  }
}

}  // namespace
}  // namespace mezzo
