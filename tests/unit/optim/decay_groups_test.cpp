// Tests parameter groups that differ in weight decay.
#include "mezzo/optim/decay_groups.h"

#include <gtest/gtest.h>

#include "mezzo/optim/adam.h"

namespace mezzo::optim {
namespace {

TEST(DecayGroups, OnlyMatricesDecay) {
  const Tensor matrix = ones({2, 3}).set_requires_grad(true);
  const Tensor bias = ones({3}).set_requires_grad(true);
  const Tensor kernel = ones({2, 3, 1, 1}).set_requires_grad(true);
  const AdamWOptions options{.lr = 0.5, .weight_decay = 0.1};
  const auto groups = decay_groups(std::vector<Tensor>{matrix, bias, kernel}, options);
  ASSERT_EQ(groups.size(), 2U);
  ASSERT_EQ(groups[0].params.size(), 2U);
  EXPECT_EQ(groups[0].params[1].impl(), kernel.impl());
  EXPECT_EQ(groups[0].options.weight_decay, 0.1);
  ASSERT_EQ(groups[1].params.size(), 1U);
  EXPECT_EQ(groups[1].params[0].impl(), bias.impl());
  EXPECT_EQ(groups[1].options.weight_decay, 0);

  // With gradients of 0, Adam moves nothing but what decays.
  AdamW optimizer(groups);
  for (const Tensor& param : {matrix, bias, kernel}) param.set_grad(zeros(param.shape()));
  optimizer.step();
  EXPECT_FLOAT_EQ(matrix.to_vector<float>()[0], 0.95F);
  EXPECT_EQ(bias.to_vector<float>()[0], 1);
}

TEST(DecayGroups, AreNeverEmpty) {
  const Tensor bias = ones({3}).set_requires_grad(true);
  EXPECT_EQ(decay_groups({bias}, AdamWOptions()).size(), 1U);
  EXPECT_TRUE(decay_groups({}, AdamWOptions()).empty());
}

}  // namespace
}  // namespace mezzo::optim
