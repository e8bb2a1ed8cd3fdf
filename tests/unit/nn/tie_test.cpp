// Tests tie(): one tensor under several names, in everything that knows parameters by name.
#include "mezzo/nn/tie.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/plan.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Floats = std::vector<float>;

// Words i64 [n] to logits of words [n, 5].
class TiedByHand final : public Module {
 public:
  TiedByHand() {
    add("embed", embed), add("mid", mid), add("head", head);
    tie(*this, "head.weight", "embed.weight");
  }
  Tensor forward(const Tensor& x) override { return head(mid(embed(x))); }

  Embedding embed{5, 3};
  Linear mid{3, 3, false};
  Linear head{3, 5, false};
};

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

Tensor words() { return from_values<std::int64_t>({0, 3, 3, 1}, {4}); }

TEST(Tie, MakesOneParameterOfTwo) {
  const TiedByHand net;
  EXPECT_EQ(net.head.weight().impl(), net.embed.weight().impl());
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("embed.weight", "mid.weight"));
  EXPECT_THAT(names_of(net.state()), ElementsAre("embed.weight", "mid.weight", "head.weight"));
  EXPECT_EQ(net.parameter_count(), 5 * 3 + 3 * 3);
}

// Each use adds to the one gradient.
TEST(Tie, GradientsAreAddedUp) {
  TiedByHand net;
  Embedding embed(5, 3);
  Linear mid(3, 3, false);
  Linear head(3, 5, false);
  embed.load_state({{"weight", net.embed.weight()}});
  mid.load_state({{"weight", net.mid.weight()}});
  head.load_state({{"weight", net.embed.weight()}});
  const auto loss = [](const Tensor& y) { return sum(y * y); };
  loss(net(words())).backward();
  loss(head(mid(embed(words())))).backward();
  const Floats a = embed.weight().grad().to_vector<float>();
  const Floats b = head.weight().grad().to_vector<float>();
  const Floats both = net.embed.weight().grad().to_vector<float>();
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], a[i] + b[i]) << i;
}

TEST(Tie, EitherNameLoadsIt) {
  for (const char* name : {"embed.weight", "head.weight"}) {
    TiedByHand net;
    net.load_state({{name, full({5, 3}, 2)}, {"mid.weight", ones({3, 3})}});
    EXPECT_THAT(net.head.weight().to_vector<float>(), testing::Each(2)) << name;
  }
}

TEST(Tie, StaysInOtherDTypes) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    TiedByHand net;
    amp::half_parameters(net, dtype);
    EXPECT_EQ(net.embed.weight().dtype(), dtype);
    EXPECT_EQ(net.head.weight().impl(), net.embed.weight().impl());
    EXPECT_EQ(net.parameters().size(), 2U);
    sum(net(words()), {}, false, DType::kF32).backward();
    EXPECT_TRUE(net.head.weight().grad().defined());
    amp::full_parameters(net);
    EXPECT_EQ(net.embed.weight().dtype(), DType::kF32);
    EXPECT_EQ(net.head.weight().impl(), net.embed.weight().impl());
  }
}

// The table is not cast for a lookup, and the product reads a 16-bit copy of it.
TEST(Tie, ToFloatCastsACopy) {
  TiedByHand net;
  amp::to_float(net, DType::kBf16);
  EXPECT_EQ(net(words()).dtype(), DType::kBf16);
  EXPECT_EQ(net.embed.weight().dtype(), DType::kF32);
  EXPECT_EQ(net.head.weight().impl(), net.embed.weight().impl());
}

// Two heads of one table share its 16-bit copy.
TEST(Tie, APlanCountsOneCast) {
  class TwoHeads final : public Module {
   public:
    TwoHeads() {
      add("first", first), add("second", second);
      tie(*this, "second.weight", "first.weight");
    }
    Tensor forward(const Tensor& x) override { return first(x) + second(x); }
    Linear first{3, 5, false};
    Linear second{3, 5, false};
  } net;
  const amp::Plan plan = amp::make_plan(net, Shape{4, 3}, {amp::Level::kO2, DType::kBf16});
  EXPECT_EQ(plan.shared_casts, 1);
}

// Whatever was tied to the replaced tensor follows.
TEST(Tie, OtherNamesFollow) {
  Sequential net;
  for (int i = 0; i < 3; ++i) net.emplace<Linear>(2, 2, false);
  tie(net, "1.weight", "2.weight");
  tie(net, "1.weight", "0.weight");
  EXPECT_EQ(net.parameters().size(), 1U);
  EXPECT_THAT(names_of(net.named_parameters()), ElementsAre("0.weight"));
  const Floats before = net.parameters()[0].to_vector<float>();
  tie(net, "2.weight", "1.weight");  // tied already
  EXPECT_EQ(net.parameters()[0].to_vector<float>(), before);
}

TEST(Tie, RefusesWhatDoesNotFit) {
  TiedByHand net;
  const auto refused = [&](const char* name, const char* with) {
    return message_of([&] { tie(net, name, with); });
  };
  EXPECT_THAT(refused("mid.weight", "embed.weight"), HasSubstr("differ. Make them alike"));
  EXPECT_THAT(refused("tail.weight", "embed.weight"), HasSubstr("no parameter `tail.weight`"));
  EXPECT_THAT(refused("embed.weight", "weight"), HasSubstr("no parameter `weight`"));
  EXPECT_THAT(refused("embed.weight", "head."), HasSubstr("no parameter `head.`"));
}

}  // namespace
}  // namespace mezzo::nn
