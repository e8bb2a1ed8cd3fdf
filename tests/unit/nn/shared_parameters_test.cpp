// Tests parameters that modules share, requested by each of their names.
#include <gmock/gmock.h>

#include "mezzo/nn/embedding.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/load_matching.h"
#include "mezzo/ops/matmul.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using ::testing::ElementsAre;

class TiedHead final : public Module {
 public:
  explicit TiedHead(Tensor shared) : weight(std::move(shared)) { add_parameter("weight", weight); }
  Tensor forward(const Tensor& x) override { return matmul(x, weight, {.transpose_b = true}); }

  Tensor weight;
};

class TiedNet final : public Module {
 public:
  TiedNet() { add("embed", embed), add("mid", mid), add("head", head); }
  Tensor forward(const Tensor& x) override { return head(mid(embed(x))); }

  Embedding embed{4, 2};
  Linear mid{2, 2};
  TiedHead head{embed.weight()};
};

TEST(SharedParameters, AreNamedByEachName) {
  for (const char* pattern : {"embed", "embed.weight", "head", "head.weight", "h*"}) {
    TiedNet net;
    const std::vector<NamedTensor> found = parameters_matching(net, pattern, "test");
    ASSERT_EQ(found.size(), 1U) << pattern;
    EXPECT_EQ(found[0].name, "embed.weight");
    EXPECT_THAT(freeze(net, {pattern}).parameters, ElementsAre("embed.weight")) << pattern;
    EXPECT_FALSE(net.head.weight.requires_grad());
  }
  TiedNet net;
  EXPECT_EQ(parameters_matching(net, "*", "test").size(), 3U);
}

TEST(SharedParameters, AreThoseOfAHead) { EXPECT_EQ(head_of(TiedNet()), "head"); }

// One name is enough to leave the tensor out.
TEST(SharedParameters, AreLeftOutUnderAllNames) {
  for (const char* path : {"head", "embed"}) {
    TiedNet net;
    const std::vector<float> before = net.head.weight.to_vector<float>();
    const std::vector<NamedTensor> state{{"embed.weight", full({4, 2}, 7)},
                                         {"mid.weight", ones({2, 2})},
                                         {"mid.bias", ones({2})},
                                         {"head.weight", full({4, 2}, 8)}};
    const LoadReport report = load_matching(net, state, {path});
    EXPECT_EQ(net.head.weight.to_vector<float>(), before) << path;
    EXPECT_THAT(report.left_out, ElementsAre("embed.weight", "head.weight"));
    EXPECT_THAT(report.taken, ElementsAre("mid.weight", "mid.bias"));
    EXPECT_TRUE(report.fits()) << report.text();
    EXPECT_TRUE(load_matching(net, std::span(state).subspan(1, 2), {path}).fits());
  }
}

}  // namespace
}  // namespace mezzo::nn
