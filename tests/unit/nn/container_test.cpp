#include "mezzo/nn/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/nn/activation.h"
#include "mezzo/nn/linear.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sequential, CallsItsModulesInOrder) {
  Sequential net(std::make_unique<Scale>(2), std::make_unique<Identity>());
  net.emplace<Scale>(3);
  EXPECT_EQ(net(from_values({1.0F, -1.0F}, {2})).to_vector<float>(), (std::vector<float>{6, -6}));
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("0.weight", "2.weight"));
  EXPECT_EQ(net.size(), 3U);
  EXPECT_EQ(net[1].path(), "1");
  EXPECT_THROW(net[3], ArgumentError);
}

TEST(Sequential, WithoutModulesIsTheIdentity) {
  Sequential net;
  const Tensor x = ones({2});
  EXPECT_EQ(net(x).impl(), x.impl());
}

TEST(Sequential, RefusesNullModules) {
  Sequential net;
  EXPECT_THROW(net.add(nullptr), ArgumentError);
  EXPECT_EQ(net.size(), 0U);
}

TEST(Sequential, Nests) {
  Sequential net;
  net.emplace<Linear>(3, 4);
  auto& inner = net.emplace<Sequential>();
  inner.emplace<ReLU>();
  inner.emplace<Linear>(4, 2, false);
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("0.weight", "0.bias", "1.1.weight"));
  EXPECT_EQ(net(ones({5, 3})).shape(), (Shape{5, 2}));
}

TEST(ModuleList, PathsHoldTheListThoughItIsNotCalled) {
  class Net : public Module {
   public:
    Net() { add("blocks", blocks); }
    Tensor forward(const Tensor& x) override {
      Tensor y = x;
      for (const auto& block : blocks) y = (*block)(y);
      return y;
    }
    ModuleList blocks{std::make_unique<Scale>(2), std::make_unique<Scale>(2)};
  } net;
  EXPECT_EQ(net(ones({2})).to_vector<float>(), (std::vector<float>{4, 4}));
  EXPECT_EQ(static_cast<Scale&>(net.blocks[1]).path_seen, "blocks.1");
  EXPECT_THAT(message_of([&] { net.blocks(ones({2})); }), HasSubstr("Sequential"));
}

}  // namespace
}  // namespace mezzo::nn
