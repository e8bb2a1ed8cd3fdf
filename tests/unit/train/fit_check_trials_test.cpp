// Tests what the trials before the first step of fit() must not change, and what they must not
// refuse.
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/train/checked_fit.h"

namespace mezzo::train {
namespace {

using testing::HasSubstr;

// Has a second head only in training, which the loss needs.
class AuxiliaryNet final : public nn::Module {
 public:
  explicit AuxiliaryNet(std::int64_t least = 1) : least_(least) { add("a", a_), add("b", b_); }
  Tensor forward(const Tensor& x) override {
    check_arg(x.size(0) >= least_, "net", "needs more examples than ", x.size(0), ". Give more");
    if (!is_training()) return a_(x);
    const Tensor ys[] = {a_(x), b_(x)};
    return cat(std::span<const Tensor>(ys), 1);
  }

 private:
  std::int64_t least_;
  nn::Linear a_{2, 3};
  nn::Linear b_{2, 3};
};

TEST(FitCheck, ALossOfOutputsInTrainingAlone) {
  AuxiliaryNet net;
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  const auto loss = [](const Tensor& output, const Tensor& labels) {
    return cross_entropy(slice(output, 1, 0, 3), labels) +
           0.3 * cross_entropy(slice(output, 1, 3, 6), labels);
  };
  Model model(net, loss, sgd, {.metrics = {}});
  data::TensorBatches loader = rows_in_classes(9, {.batch_size = 4});
  EXPECT_EQ(model.fit(1, loader).steps, 3);
  AuxiliaryNet picky(2);
  CheckedFit refused(picky);
  EXPECT_THAT(refused.refusal(loader),
              HasSubstr("needs more examples than 1. Give more. This is "
                        "the last batch of an epoch, which has 1 example"));
}

// Changes its own values when it is called: one in place, and one by a new tensor each time.
class CountingNet final : public nn::Module {
 public:
  CountingNet() { add("fc", fc_), add_buffer("calls", calls_), add_buffer("rows", rows_); }
  Tensor forward(const Tensor& x) override {
    calls_.mutable_data<float>()[0] += 1;
    rows_ = full({}, rows_.item() + static_cast<double>(x.size(0)), DType::kF32);
    return fc_(x);
  }
  double calls() const { return calls_.item(); }
  double rows() const { return rows_.item(); }

 private:
  nn::Linear fc_{2, 3};
  Tensor calls_ = zeros({});
  Tensor rows_ = zeros({});
};

TEST(FitCheck, PutsBuffersOfTheUsersOwnBack) {
  CountingNet net;
  CheckedFit training(net);
  data::TensorBatches loader = rows_in_classes(40, {.batch_size = 16});
  training.model.fit(1, loader);
  EXPECT_EQ(net.calls(), 3);
  EXPECT_EQ(net.rows(), 40);
  training.model.fit(1, loader, {.validation = &loader});
  EXPECT_EQ(net.calls(), 9) << "with the evaluation itself";
  EXPECT_EQ(net.rows(), 120);
}

// Between steps, the divisor of a captured step has no elements.
TEST(FitCheck, TriesABatchAfterCapturedSteps) {
  nn::Linear net(2, 3);
  optim::Sgd sgd(net.parameters(), {.lr = 0.1});
  Model model(net, nn::CrossEntropyLoss({.ignore_index = 0}), sgd,
              {.amp = {.step = {.micro_batches = 2}}, .graph = true});
  data::TensorBatches loader = rows_in_classes(10, {.batch_size = 4});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(model.fit(1, loader, {.validation = &loader}).steps, 3);
}

}  // namespace
}  // namespace mezzo::train
