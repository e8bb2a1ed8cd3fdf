#include "mezzo/nn/load_matching.h"

#include <gmock/gmock.h>

#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/linear.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HeadedNet final : public Module {
 public:
  explicit HeadedNet(std::int64_t classes, std::int64_t width = 4)
      : body(3, width), head(width, classes) {
    add("body", body), add("head", head);
  }
  Tensor forward(const Tensor& x) override { return head(body(x)); }

  Linear body;
  Linear head;
};

std::vector<float> numbers_of(const Tensor& tensor) { return tensor.to_vector<float>(); }

TEST(LoadMatching, TakesWhatFitsAndNamesTheRest) {
  HeadedNet from(10);
  HeadedNet to(2);
  std::vector<NamedTensor> state = from.state();
  state.push_back({"extra.weight", ones({2})});
  state.erase(state.begin() + 1);  // body.bias
  const std::vector<float> bias = numbers_of(to.body.bias());
  const std::vector<float> head = numbers_of(to.head.weight());
  const LoadReport report = load_matching(to, state);
  EXPECT_THAT(report.taken, ElementsAre("body.weight"));
  EXPECT_THAT(report.missing, ElementsAre("body.bias"));
  EXPECT_THAT(report.unexpected, ElementsAre("extra.weight"));
  EXPECT_THAT(report.different, ElementsAre(HasSubstr("head.weight is "), HasSubstr("head.bias")));
  EXPECT_FALSE(report.fits());
  EXPECT_THAT(report.text(), testing::StartsWith("missing: body.bias; unexpected: extra.weight; "
                                                 "different: head.weight is f32[2, 4]"));
  EXPECT_EQ(numbers_of(to.body.weight()), numbers_of(from.body.weight()));
  EXPECT_EQ(numbers_of(to.body.bias()), bias);
  EXPECT_EQ(numbers_of(to.head.weight()), head);
}

// Even for the same number of classes, since the head is for other classes.
TEST(LoadMatching, WhatIsLeftOutStaysThoughItWouldFit) {
  HeadedNet from(10);
  HeadedNet to(10);
  const std::vector<float> head = numbers_of(to.head.weight());
  const std::vector<std::string> left_out{head_of(to)};
  const LoadReport report = load_matching(to, from.state(), left_out);
  EXPECT_THAT(report.left_out, ElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(report.taken, ElementsAre("body.weight", "body.bias"));
  EXPECT_TRUE(report.fits());
  EXPECT_EQ(report.text(), "");
  EXPECT_EQ(numbers_of(to.head.weight()), head);
  // A file without any head is complete, and a name that only begins like the path is another one.
  std::vector<NamedTensor> body = from.state();
  body.resize(2);
  body.push_back({"header", ones({1})});
  EXPECT_THAT(load_matching(to, body, left_out).unexpected, ElementsAre("header"));
}

TEST(LoadMatching, AStateThatFitsNowhereIsRefused) {
  HeadedNet from(10, 5);
  HeadedNet to(2);
  const std::vector<float> before = numbers_of(to.body.weight());
  EXPECT_THAT(message_of<ArgumentError>([&] { load_matching(to, from.state()); }),
              HasSubstr("[load_matching] no entry of the state fits the module; different: "));
  std::vector<NamedTensor> twice = HeadedNet(2).state();
  twice.push_back(twice.front());
  EXPECT_THROW(load_matching(to, twice), ArgumentError);
  twice.back() = {"body.bias", Tensor()};
  EXPECT_THROW(load_matching(to, twice), ArgumentError);
  EXPECT_EQ(numbers_of(to.body.weight()), before);
}

TEST(HeadOf, IsTheModuleOfTheLastParameters) {
  EXPECT_EQ(head_of(HeadedNet(2)), "head");
  EXPECT_EQ(head_of(Linear(2, 2)), "");
  for (const std::string name : {"lenet5", "mlp", "resnet20"}) {
    const auto net = models::create(name, models::usual_config(name));
    EXPECT_THAT(head_of(*net), testing::StartsWith("fc")) << name;
  }
}

}  // namespace
}  // namespace mezzo::nn
