// Tests whole training steps as one recording: forward and backward pass, running statistics, the
// check of gradients and losses, and the update, which skips by itself. The recorder is one for the
// CPU.
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/amp/buffer_snapshot.h"
#include "mezzo/amp/names/build_train_network.h"
#include "mezzo/amp/names/oneflow_scalers.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/rmsprop.h"
#include "tests/unit/graph/fake_recorder.h"
#include "tests/unit/graph/twins.h"
#include "tests/unit/graph/user_graphs.h"
#include "tests/unit/optim/user_rule.h"

namespace mezzo::graph {
namespace {

const optim::SgdOptions kScheduledSgd{
    .lr = std::vector<double>{0.05, 0.02, 0.1, 0.03}, .momentum = 0.9, .dampening = 0.2};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Steps some of which are skipped: with scales that overflow, and for non-finite images.
template <class Optimizer = optim::Sgd, class Options = optim::SgdOptions>
void expect_one_recording(const amp::TrainNetworkOptions& amp,
                          const std::optional<amp::LossScaleOptions>& scaling,
                          const Options& options, const std::vector<std::uint64_t>& bad_images,
                          int expected_skips, const amp::LossFunction& loss = amp::class_loss) {
  RecorderLog log;
  Twins<amp::SmallNet, Optimizer> twins(small_net, options, amp, scaling, loss, recorded_in(log));
  int skipped = 0;
  int ended_early = 0;
  constexpr int kSteps = 9;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    const Batch batch = amp::small_batch(i);
    if (std::ranges::find(bad_images, i) != bad_images.end()) fill(batch.images, kInfinity);
    const TrainStepResult result = twins.step(batch);
    twins.expect_same_state();
    skipped += result.skipped ? 1 : 0;
    // A run that ends early, such as one without a finite loss, does not choose kernels.
    if (log.launches == 0 && result.nonfinite_loss) ++ended_early;
  }
  EXPECT_EQ(skipped, expected_skips);
  EXPECT_EQ(log.recordings, 1);
  EXPECT_EQ(log.launches, kSteps - kEager - ended_early) << "one in each step";
}

// From 2^116 on, the gradients of this loss overflow f32.
const amp::LossScaleOptions kOverflows{.init_scale = 0x1p119, .growth_interval = 2};

TEST(QueuedUpdate, AStepIsOneLaunchWhetherItIsSkippedOrNot) {
  for (const char* level : {"O0", "O2", "O3"}) {
    const amp::TrainNetworkOptions amp{.level = level, .dtype = DType::kBf16};
    expect_one_recording(amp, std::nullopt, kScheduledSgd, {}, 0);
    expect_one_recording(amp, std::nullopt, kScheduledSgd, {0, 3, 4}, 3);
  }
}

TEST(QueuedUpdate, LossScalesMoveAsTheyDoEagerly) {
  RecorderLog log;
  const optim::SgdOptions slow{.lr = 1e-6, .momentum = 0.9};  // the loss keeps its slope
  Twins<amp::SmallNet> twins(small_net, slow, {.level = "O0"}, kOverflows, amp::steep_loss,
                             recorded_in(log));
  std::vector<bool> skipped;
  for (std::uint64_t i = 0; i < 12; ++i) {
    skipped.push_back(twins.step(amp::small_batch(i)).overflow);
    twins.expect_same_state();
  }
  EXPECT_TRUE(skipped[0] && skipped[1]) << "the scale comes down first";
  EXPECT_GE(std::ranges::count(skipped, false), 4) << "then it holds, and grows again";
  EXPECT_GE(std::ranges::count(skipped, true), 4);
  EXPECT_EQ(log.recordings, 1);
  EXPECT_EQ(log.launches, 12 - kEager);
}

// Below 1, unscaling may overflow.
TEST(QueuedUpdate, ScalesBelowOne) {
  const amp::LossScaleOptions low{.init_scale = 0x1p-120, .min_scale = 0x1p-126};
  expect_one_recording<>({.level = "O0"}, low, kScheduledSgd, {5}, 1);
}

TEST(QueuedUpdate, AdamCountsTheStepsThatAreDone) {
  const optim::AdamWOptions options{.lr = std::vector<double>{0.01, 0.002, 0.03}};
  expect_one_recording<optim::AdamW>({.level = "O2", .dtype = DType::kF16},
                                     amp::LossScaleOptions{.init_scale = 4}, options, {0, 4}, 2);
}

TEST(QueuedUpdate, TakesRulesOfEveryKind) {
  const amp::TrainNetworkOptions amp{.level = "O2", .dtype = DType::kF16};
  const amp::LossScaleOptions scaling{.init_scale = 4};
  expect_one_recording<optim::Lion>(amp, scaling, optim::LionOptions{.lr = 1e-3}, {0, 4}, 2);
  expect_one_recording<optim::RmsProp>(
      amp, scaling, optim::RmsPropOptions{.lr = 1e-3, .momentum = 0.9, .centered = true}, {0, 4},
      2);
  expect_one_recording<optim::Signum>(amp, scaling, optim::SignumOptions{.lr = 1e-3}, {0, 4}, 2);
}

// A skipped step rounds no state: the next one uses the random numbers that it would have used.
TEST(QueuedUpdate, TakesStateInFewerBits) {
  const amp::TrainNetworkOptions amp{.level = "O2", .dtype = DType::kF16};
  const amp::LossScaleOptions scaling{.init_scale = 4};
  expect_one_recording<optim::AdamW>(
      amp, scaling, optim::AdamWOptions{.lr = 1e-3, .state_dtype = DType::kBf16}, {0, 4}, 2);
}

TEST(QueuedUpdate, WithoutChecksNothingIsSkipped) {
  RecorderLog log;
  const amp::TrainNetworkOptions amp{.level = "O2",
                                     .dtype = DType::kBf16,
                                     .step = {.nonfinite_loss = amp::NonfiniteLoss::kOverflow}};
  Twins<amp::SmallNet> twins(small_net, kScheduledSgd, amp, std::nullopt, amp::class_loss,
                             recorded_in(log));
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_FALSE(twins.step(amp::small_batch(i)).skipped);
    twins.expect_same_state();
  }
  EXPECT_EQ(log.launches, 6 - kEager);
}

TEST(QueuedUpdate, MicroBatchesAreOneStep) {
  expect_one_recording<>({.level = "O2", .dtype = DType::kF16, .step = {.micro_batches = 3}},
                         amp::LossScaleOptions{.init_scale = 4}, kScheduledSgd, {1, 6}, 2);
}

TEST(QueuedUpdate, BuffersThatAreNotRestoredMoveOn) {
  RecorderLog log;
  const amp::TrainNetworkOptions amp{
      .level = "O0",
      .step = {.nonfinite_loss = amp::NonfiniteLoss::kOverflow, .restore_buffers = false}};
  Twins<amp::SmallNet> twins(small_net, kScheduledSgd, amp, kOverflows, amp::steep_loss,
                             recorded_in(log));
  for (std::uint64_t i = 0; i < 6; ++i) {
    twins.step(amp::small_batch(i));
    twins.expect_same_state();
  }
  EXPECT_EQ(log.launches, 6 - kEager);
}

TEST(QueuedUpdate, ClippingIsPartOfIt) {
  for (const double max_norm : {0.1, 1e4}) {
    const amp::TrainStepOptions step{.max_grad_norm = max_norm};
    expect_one_recording<>({.level = "O2", .dtype = DType::kF16, .step = step},
                           amp::LossScaleOptions{.init_scale = 4}, kScheduledSgd, {3}, 1);
    expect_one_recording<>({.level = "O2", .dtype = DType::kBf16, .step = step}, std::nullopt,
                           kScheduledSgd, {0, 5}, 2);
  }
}

// The host's part of queued work runs once in a run, even if its recording is refused.
TEST(QueuedUpdate, ARefusedRecordingCountsNothingTwice) {
  for (const int after : {0, 1}) {
    RecorderLog log;
    log.refuses_after = after;
    Twins<amp::SmallNet> twins(small_net, kScheduledSgd, {.level = "O2", .dtype = DType::kF16},
                               amp::LossScaleOptions{.init_scale = 4}, amp::class_loss,
                               recorded_in(log));
    for (std::uint64_t i = 0; i < 6; ++i) {
      twins.step(amp::small_batch(i));
      twins.expect_same_state();
    }
    EXPECT_FALSE(log.refuses_after.has_value());
  }
}

// Loaded state has another address, which the list of the update contains.
TEST(QueuedUpdate, LoadedStateIsSeenWithoutAnotherRecording) {
  RecorderLog log;
  manual_seed(3);
  amp::SmallNet nets[2];
  nets[1].load_state(nets[0].state());
  std::vector<std::vector<double>> results;
  for (amp::SmallNet& net : nets) {
    const bool is_graph = &net == &nets[1];
    optim::Sgd optimizer(net.parameters(), kScheduledSgd);
    auto step = amp::build_train_network(net, amp::class_loss, optimizer, {.level = "O0"});
    if (is_graph) step.set_execution(captured(net, recorded_in(log)));
    for (std::uint64_t i = 0; i < 6; ++i) {
      const Batch batch = amp::small_batch(i);
      if (i == 4) optimizer.set_state("momentum.0", ones(net.parameters()[0].shape()));
      step(batch.images, batch.labels);
    }
    for (auto& numbers : amp::everything(net, optimizer)) results.push_back(std::move(numbers));
  }
  const auto middle = results.begin() + static_cast<std::ptrdiff_t>(results.size() / 2);
  EXPECT_TRUE(std::equal(results.begin(), middle, middle, results.end()));
  EXPECT_EQ(log.recordings, 1);
}

// A user's graph, including its update.
TEST(QueuedUpdate, UserGraphsAreOneLaunch) {
  for (const double max_norm : {0.0, 0.5}) {
    Training plain(0x1p118, max_norm);
    Training graphed(0x1p118, max_norm);
    RecorderLog log;
    TrainGraph graph(graphed);
    graph.config.enable_recording(recorded_in(log));
    int skipped = 0;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const amp::Batch batch = amp::small_batch(i);
      const double expected = plain_step(plain, std::nullopt, batch.images, batch.labels).item();
      EXPECT_EQ(graph(batch.images, batch.labels).item(), expected);
      EXPECT_EQ(graphed.scaler.get_scale(), plain.scaler.get_scale());
      EXPECT_EQ(graph.updates().at(0).step.skipped_in_a_row, plain.scaler.skipped_in_a_row());
      EXPECT_EQ(graph.updates().at(0).grad_norm.has_value(), max_norm > 0);
      EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
      skipped += graph.updates().at(0).step.found_inf ? 1 : 0;
    }
    EXPECT_GE(skipped, 2);
    EXPECT_EQ(log.launches, 8 - kEager);
  }
}

// Also in a recorded step that is skipped.
TEST(QueuedUpdate, UserGraphsPutBuffersBack) {
  Training plain;
  Training graphed;
  RecorderLog log;
  TrainGraph graph(graphed);
  graph.config.enable_recording(recorded_in(log));
  graph.config.restore_buffers();
  for (std::uint64_t i = 0; i < 8; ++i) {
    const amp::Batch batch = amp::small_batch(i);
    if (i % 3 == 1) fill(batch.images, kInfinity);
    const amp::BufferSnapshot before(plain.net);
    plain_step(plain, std::nullopt, batch.images, batch.labels);
    if (plain.scaler.skipped_in_a_row() > 0) before.restore();
    graph(batch.images, batch.labels);
    EXPECT_EQ(graph.updates()[0].step.found_inf, i % 3 == 1) << i;
    EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
  }
  EXPECT_EQ(log.launches, 8 - kEager);
}

// compile(): calls of the scaler and the optimizer in the step are queued. unscale_() and
// everything after it are not.
TEST(QueuedUpdate, CompiledStepsWithPyTorchsNames) {
  for (const double max_norm : {0.0, 0.5}) {
    Training plain(0x1p118, max_norm);
    Training graphed(0x1p118, max_norm);
    RecorderLog log;
    CompiledStep compiled = compile(
        [&](std::span<const Tensor> in) {
          return std::vector<Tensor>{plain_step(graphed, std::nullopt, in[0], in[1])};
        },
        {.networks = {&graphed.net}, .record = recorded_in(log)});
    for (std::uint64_t i = 0; i < 8; ++i) {
      const amp::Batch batch = amp::small_batch(i);
      const Tensor inputs[] = {batch.images, batch.labels};
      const double expected = plain_step(plain, std::nullopt, batch.images, batch.labels).item();
      EXPECT_EQ(compiled(inputs)[0].item(), expected);
      EXPECT_EQ(graphed.scaler.get_scale(), plain.scaler.get_scale());
      EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
    }
    EXPECT_EQ(log.launches, 8 - kEager);
  }
}

// The result of unscale_() counts, even if clipping has made the gradients finite since.
TEST(QueuedUpdate, AnOverflowThatIsClippedAwayIsOne) {
  for (const double scale : {0x1p118, 4.0}) {
    Training plain(scale);
    Training graphed(scale);
    const auto step = [](Training& training, std::span<const Tensor> in) {
      const Tensor loss = loss_of(training.net, in[0], in[1]);
      training.scaler.scale(loss).backward();
      training.scaler.unscale_(training.optimizer);
      optim::clip_grad_value(training.optimizer.params(), 0.01);
      training.scaler.step(training.optimizer);
      training.scaler.update();
      training.optimizer.zero_grad();
      return std::vector<Tensor>{loss};
    };
    RecorderLog log;
    CompiledStep compiled = compile([&](std::span<const Tensor> in) { return step(graphed, in); },
                                    {.networks = {&graphed.net}, .record = recorded_in(log)});
    for (std::uint64_t i = 0; i < 6; ++i) {
      const amp::Batch batch = amp::small_batch(i);
      const Tensor inputs[] = {batch.images, batch.labels};
      EXPECT_EQ(compiled(inputs)[0].item(), step(plain, inputs)[0].item());
      EXPECT_EQ(graphed.scaler.get_scale(), plain.scaler.get_scale());
      EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
    }
  }
}

// Two optimizers, one of which has nothing to do.
TEST(QueuedUpdate, AnOptimizerWithoutGradients) {
  RecorderLog log;
  manual_seed(4);
  amp::SmallNet net;
  nn::Linear unused(3, 2);
  optim::Sgd optimizers[] = {optim::Sgd(net.parameters(), kScheduledSgd),
                             optim::Sgd(unused.parameters(), kScheduledSgd)};
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
    const Tensor loss = amp::class_loss(net(x), labels);
    self.backward(loss);
    return loss;
  });
  graph.add_module(net);
  for (optim::Sgd& optimizer : optimizers) {
    graph.add_optimizer(optimizer, {.max_grad_norm = 1});
  }
  graph.config.enable_recording(recorded_in(log));
  for (std::uint64_t i = 0; i < 4; ++i) {
    const amp::Batch batch = amp::small_batch(i);
    graph(batch.images, batch.labels);
    EXPECT_TRUE(graph.updates().at(0).step.stepped);
    EXPECT_GT(graph.updates().at(0).grad_norm.value_or(0), 0);
    EXPECT_TRUE(graph.updates().at(1).step.nothing_to_do);
    EXPECT_EQ(graph.updates().at(1).grad_norm, 0);
  }
  EXPECT_EQ(log.launches, 4 - kEager);
}

// The recording checks gradients as the first scaler requested, with that scaler's memory.
TEST(QueuedUpdate, AStepIsAsItWasBehindOneOfAnotherScaler) {
  RecorderLog log;
  amp::SmallNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 1e-6});
  amp::TrainStep step(net, amp::steep_loss, optimizer, amp::GradScaler());
  step.set_execution(captured(net, recorded_in(log)));
  const Batch batch = amp::small_batch(1);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(step(batch.images, batch.labels).skipped);
  step.scaler() = amp::static_grad_scaler(8);
  step(batch.images, batch.labels);
  step.scaler() = amp::GradScaler(kOverflows);
  const auto before = amp::everything(net, optimizer);
  EXPECT_TRUE(step(batch.images, batch.labels).overflow);
  EXPECT_TRUE(amp::everything(net, optimizer) == before);
  EXPECT_EQ(log.launches, 3) << "the last step launches what was recorded first";
}

// After the update of one optimizer, the step continues with other parameters.
TEST(QueuedUpdate, CallsBehindAnUpdateSeeIt) {
  RecorderLog log;
  manual_seed(9);
  amp::SmallNet net;
  optim::Sgd optimizer(net.parameters(), kScheduledSgd);
  const auto step = [&](std::span<const Tensor> in) {
    std::vector<Tensor> losses;
    for (int pass = 0; pass < 2; ++pass) {
      const amp::Autocast region(amp::Policy{.level = amp::Level::kO2, .lower = DType::kBf16});
      losses.push_back(amp::class_loss(net(in[0]).astype(DType::kF32), in[1]));
      losses.back().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    return losses;
  };
  CompiledStep compiled = compile(step, {.networks = {&net}, .record = recorded_in(log)});
  const amp::Batch batch = amp::small_batch(1);
  const Tensor inputs[] = {batch.images, batch.labels};
  std::vector<double> graph_losses;
  std::vector<double> eager_losses;
  for (int i = 0; i < 5; ++i) {
    for (const Tensor& loss : compiled(inputs)) graph_losses.push_back(loss.item());
  }
  manual_seed(9);
  amp::SmallNet same;
  optim::Sgd same_optimizer(same.parameters(), kScheduledSgd);
  for (int i = 0; i < 10; ++i) {
    const amp::Autocast region(amp::Policy{.level = amp::Level::kO2, .lower = DType::kBf16});
    const Tensor loss = amp::class_loss(same(inputs[0]).astype(DType::kF32), inputs[1]);
    eager_losses.push_back(loss.item());
    loss.backward();
    same_optimizer.step();
    same_optimizer.zero_grad();
  }
  EXPECT_EQ(graph_losses, eager_losses);
  EXPECT_EQ(log.launches, 2 * (5 - kEager)) << "the update of the first pass ends a recording";
}

}  // namespace
}  // namespace mezzo::graph
