// Tests gradients of 16-bit parameters over the micro-batches of a step: they are summed in f32,
// eagerly and in graph mode.
#include <cmath>
#include <limits>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/graph/twins.h"

namespace mezzo::graph {
namespace {

using optim::ParamUpdate;

// One parameter, and a loss whose gradient is the mean of the inputs: [n, 1].
class Scale final : public nn::Module {
 public:
  Scale() { add_parameter("weight", weight_); }
  Tensor forward(const Tensor& x) override { return x.astype(weight_.dtype()) * weight_; }
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_ = ones({1});
};

Tensor mean_of(const Tensor& output, const Tensor&) { return mean(output); }

std::unique_ptr<Scale> half_scale(DType dtype) {
  auto net = std::make_unique<Scale>();
  amp::half_parameters(*net, dtype);
  return net;
}

// The gradient of a step, from the change of the f32 master weight.
double gradient_of_step(DType dtype, std::int64_t parts, bool graph,
                        const std::optional<amp::LossScaleOptions>& scaling) {
  const auto net = half_scale(dtype);
  optim::Sgd sgd(net->parameters(), {.lr = 1});
  amp::TrainNetworkOptions options{.dtype = dtype, .step = {.micro_batches = parts}};
  if (scaling.has_value()) options.loss_scale_manager = amp::LossScaleManager(*scaling);
  auto step = amp::build_train_network(*net, mean_of, sgd, options);
  if (graph) step.set_execution(captured(*net));
  EXPECT_FALSE(step(ones({1024, 1}), zeros({1024, 1})).skipped);
  return 1 - sgd.state().at(0).tensor.item();
}

// Each part adds 1 / parts, which both dtypes represent exactly: the sum is 1 for any number of
// parts.
TEST(HalfSums, AreTheSameForAnyNumberOfParts) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const std::int64_t parts : {1, 64, 512}) {
      for (const bool graph : {false, true}) {
        EXPECT_EQ(gradient_of_step(dtype, parts, graph, std::nullopt), 1) << parts;
        EXPECT_EQ(gradient_of_step(dtype, parts, graph, amp::LossScaleOptions{.init_scale = 64}), 1)
            << parts;
      }
    }
  }
}

std::unique_ptr<amp::SmallNet> half_net(DType dtype) {
  auto net = std::make_unique<amp::SmallNet>();
  amp::half_parameters(*net, dtype, {.keep_batchnorm_fp32 = dtype == DType::kBf16});
  return net;
}

// Runs some steps of three parts, eagerly and in graph mode.
void expect_same_bits(DType dtype, ParamUpdate rule, bool scales, bool clips) {
  optim::SgdOptions sgd = kSgd;
  sgd.param_update = rule;
  amp::TrainNetworkOptions options{
      .level = "O2", .dtype = dtype, .loss_scale_manager = amp::LossScaleManager()};
  options.step.micro_batches = 3;
  if (clips) options.step.max_grad_norm = 0.1;
  Twins<amp::SmallNet> twins(
      [&] { return half_net(dtype); }, sgd, options,
      scales ? std::optional(amp::LossScaleOptions{.init_scale = 64}) : std::nullopt);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(twins.step(amp::small_batch(i)).skipped);
  twins.expect_same_state();
}

// Graph mode computes the same sums, for every update rule and every reader of gradients.
TEST(HalfSums, HaveTheSameBitsInGraphMode) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    for (const ParamUpdate rule : {ParamUpdate::kMaster, ParamUpdate::kKahan, ParamUpdate::kNearest,
                                   ParamUpdate::kStochastic}) {
      for (const bool scales : {false, true}) {
        for (const bool clips : {false, true}) expect_same_bits(dtype, rule, scales, clips);
      }
    }
  }
}

TEST(HalfSums, HaveTheSameBitsInGraphModeWithAdam) {
  Twins<amp::SmallNet, optim::AdamW> twins(
      [] { return half_net(DType::kBf16); }, optim::AdamWOptions{.lr = 0.01},
      {.level = "O2", .dtype = DType::kBf16, .step = {.micro_batches = 4}});
  for (std::uint64_t i = 0; i < 3; ++i) twins.step(amp::small_batch(i));
  twins.expect_same_state();
}

// An infinity in one part makes the sum infinite: the step is skipped and reports where it was.
TEST(HalfSums, PassInfinitiesOn) {
  for (const std::uint64_t bad : {0U, 1U, 2U}) {
    Twins<amp::SmallNet> twins(
        [] { return half_net(DType::kF16); }, kSgd,
        {.level = "O2",
         .dtype = DType::kF16,
         .step = {.micro_batches = 3, .nonfinite_loss = amp::NonfiniteLoss::kOverflow}},
        amp::LossScaleOptions{.init_scale = 64});
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Batch batch = amp::small_batch(i);
      if (i == bad) fill(batch.images, std::numeric_limits<double>::infinity());
      const TrainStepResult result = twins.step(batch);
      EXPECT_EQ(result.skipped, i == bad);
      EXPECT_EQ(result.first_bad.empty(), i != bad);
      twins.expect_same_state();
    }
  }
}

// Gradient statistics also see f32 sums.
TEST(HalfSums, AreCounted) {
  const auto net = half_net(DType::kBf16);
  optim::Sgd sgd(net->parameters(), kSgd);
  amp::GradientStatistics statistics(*net, {.every = 1});
  auto step = amp::build_train_network(*net, amp::class_loss, sgd,
                                       {.level = "O2",
                                        .dtype = DType::kBf16,
                                        .step = {.micro_batches = 2, .statistics = &statistics}});
  const Batch batch = amp::small_batch(1);
  EXPECT_FALSE(step(batch.images, batch.labels).skipped);
  EXPECT_EQ(statistics.total().front().passes, 1);
}

}  // namespace
}  // namespace mezzo::graph
