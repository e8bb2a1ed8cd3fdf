// Compares users' graphs with the same training as plain code.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "mezzo/amp/buffer_snapshot.h"
#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/graph/text.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "tests/unit/graph/user_graphs.h"

namespace mezzo::graph {
namespace {

// Runs steps of both, with an infinite image in step `bad`. Returns the number of skipped steps.
int train_both(Training& plain, Training& graphed, const OptionalPolicy& policy, int bad = -1) {
  TrainGraph graph(graphed, policy);
  int skipped = 0;
  for (int i = 0; i < 8; ++i) {
    const amp::Batch batch = amp::small_batch(static_cast<std::uint64_t>(i));
    if (i == bad) fill(batch.images, std::numeric_limits<double>::infinity());
    const double expected = plain_step(plain, policy, batch.images, batch.labels).item();
    const double loss = graph(batch.images, batch.labels).item();
    EXPECT_TRUE(loss == expected || (std::isnan(loss) && std::isnan(expected))) << i;
    EXPECT_EQ(graphed.scaler.get_scale(), plain.scaler.get_scale()) << i;
    EXPECT_EQ(graph.updates().at(0).step.stepped, plain.scaler.skipped_in_a_row() == 0) << i;
    EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
    skipped += graph.updates().at(0).step.found_inf ? 1 : 0;
  }
  EXPECT_EQ(graph.programs(), 1U);
  return skipped;
}

TEST(UserGraph, HasTheBitsOfPlainCode) {
  for (const double max_norm : {0.0, 0.5}) {
    Training plain(1024, max_norm);
    Training graphed(1024, max_norm);
    EXPECT_EQ(train_both(plain, graphed, std::nullopt, 3), 1);
  }
}

// This network leaves nothing to decide, so level auto has the same bits, too.
TEST(UserGraph, HasTheBitsOfPlainCodeAtEveryLevel) {
  for (const auto level : {amp::Level::kO1, amp::Level::kAuto, amp::Level::kO2, amp::Level::kO3}) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      Training plain;
      Training graphed;
      train_both(plain, graphed, amp::Policy{.level = level, .lower = dtype});
    }
  }
}

TEST(UserGraph, HasTheBitsOfPlainCodeWithHalfParameters) {
  for (const double max_norm : {0.0, 0.5}) {
    Training plain(1024, max_norm, true);
    Training graphed(1024, max_norm, true);
    EXPECT_EQ(train_both(plain, graphed, std::nullopt, 3), 1);
  }
}

// A forward pass that overflows leaves no trace, as in a loop that restores the buffers.
TEST(UserGraph, PutsBackTheBuffersOfASkippedStep) {
  Training plain;
  Training graphed;
  TrainGraph graph(graphed);
  graph.config.restore_buffers();
  for (int i = 0; i < 5; ++i) {
    const amp::Batch batch = amp::small_batch(static_cast<std::uint64_t>(i));
    if (i % 2 == 1) fill(batch.images, std::numeric_limits<double>::infinity());
    const amp::BufferSnapshot before(plain.net);
    plain_step(plain, std::nullopt, batch.images, batch.labels);
    if (plain.scaler.skipped_in_a_row() > 0) before.restore();
    graph(batch.images, batch.labels);
    EXPECT_EQ(graph.updates()[0].step.found_inf, i % 2 == 1);
    EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
  }
  EXPECT_EQ(graph.programs(), 1U);
  for (const NamedTensor& buffer : graphed.net.named_buffers()) {
    EXPECT_TRUE(all_finite(std::vector{buffer.tensor.astype(DType::kF32)})) << buffer.name;
  }
}

// The scale starts where gradients overflow, falls, grows and overflows again.
TEST(UserGraph, TheScaleTakesTheSameWay) {
  for (const double max_norm : {0.0, 0.5}) {
    Training plain(0x1p119, max_norm);
    Training graphed(0x1p119, max_norm);
    const int skipped = train_both(plain, graphed, std::nullopt);
    EXPECT_GT(skipped, 2);
    EXPECT_LT(skipped, 8);
  }
}

TEST(UserGraph, AnotherShapeOrModeIsCapturedAgain) {
  Training plain;
  Training graphed;
  TrainGraph graph(graphed);
  int captured = 0;
  for (const std::int64_t n : {8, 8, 5, 8, 5}) {
    const amp::Batch batch = amp::small_batch(1, n);
    EXPECT_EQ(graph(batch.images, batch.labels).item(),
              plain_step(plain, std::nullopt, batch.images, batch.labels).item());
    captured = graph.builds();
  }
  EXPECT_EQ(captured, 2);
  EXPECT_TRUE(graphed.everything() == plain.everything());
  plain.net.eval();
  graphed.net.eval();
  const amp::Batch batch = amp::small_batch(2);
  EXPECT_EQ(graph(batch.images, batch.labels).item(),
            plain_step(plain, std::nullopt, batch.images, batch.labels).item());
  EXPECT_EQ(graph.builds(), 3);
}

// A scaler that acts differently in the next step has a program of its own.
TEST(UserGraph, AnotherScalerInItsPlaceIsCapturedAgain) {
  Training plain;
  Training graphed;
  TrainGraph graph(graphed);
  for (const bool enabled : {false, true, false}) {
    for (Training* training : {&plain, &graphed}) {
      training->scaler = amp::GradScaler({.init_scale = 1024}, enabled);
    }
    const double expected = plain_step(plain, {}, kBatch.images, kBatch.labels).item();
    EXPECT_EQ(graph(kBatch.images, kBatch.labels).item(), expected);
    EXPECT_EQ(graph.updates().at(0).step.scale_used, enabled ? 1024 : 1);
    EXPECT_TRUE(graphed.everything() == plain.everything());
  }
  EXPECT_EQ(graph.programs(), 2U);
}

// The scaler scales the loss and unscales the gradients.
TEST(UserGraph, AScalerThatIsSetLaterIsUsed) {
  Training plain;
  Training graphed;
  amp::GradScaler later({.init_scale = 64});
  TwoInputs graph([&](TwoInputs& self, const Tensor& x, const Tensor& labels) {
    const Tensor loss = loss_of(graphed.net, x, labels);
    self.backward(loss);
    return loss;
  });
  graph.add_module(graphed.net);
  graph.add_optimizer(graphed.optimizer);
  graph.set_grad_scaler(graphed.scaler);
  for (int i = 0; i < 2; ++i) {
    plain_step(plain, {}, kBatch.images, kBatch.labels);
    graph(kBatch.images, kBatch.labels);
    EXPECT_EQ(graph.updates().at(0).step.scale_used, i == 0 ? 1024 : 64);
    EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
    graph.set_grad_scaler(later);
    plain.scaler = amp::GradScaler({.init_scale = 64});
  }
}

// The graph records whatever its caller does, and drops gradients that others have left.
TEST(UserGraph, TrainsWithoutRecordingAroundItAndWithGradientsFromBefore) {
  Training plain;
  Training graphed;
  TrainGraph graph(graphed);
  const NoGrad guard;
  for (int i = 0; i < 2; ++i) {
    {
      const GradMode records(true);
      plain_step(plain, {}, kBatch.images, kBatch.labels);
    }
    const Tensor param = graphed.net.parameters().at(0);
    param.set_grad(ones(param.shape()));
    graph(kBatch.images, kBatch.labels);
    EXPECT_TRUE(graphed.everything() == plain.everything()) << i;
  }
}

TEST(UserGraph, GradientsAreCountedInTheStepsThatAreDue) {
  for (const auto& [before, scales] :
       {std::pair(0, true), std::pair(1, true), std::pair(1, false)}) {
    std::vector<std::int64_t> passes[2];
    for (const bool graphs : {false, true}) {
      Training training;
      if (!scales) training.scaler = amp::GradScaler({}, false);
      amp::GradientStatistics statistics(training.net, {.every = 2, .activations = true});
      training.scaler.set_statistics(&statistics);
      TrainGraph graph(training);
      for (int i = 0; i < before; ++i) statistics.begin_step(1024);
      for (int i = 0; i < 4; ++i) {
        statistics.begin_step(training.scaler.get_scale());
        graphs ? graph(kBatch.images, kBatch.labels)
               : plain_step(training, {}, kBatch.images, kBatch.labels);
        passes[graphs ? 1 : 0].push_back(statistics.total_activations().at(0).passes);
        passes[graphs ? 1 : 0].push_back(statistics.total().at(0).counts.total());
      }
    }
    EXPECT_EQ(passes[1], passes[0]) << before;
    EXPECT_GT(passes[0].back(), 0);
  }
}

TEST(UserGraph, WeightsThatOthersWriteAreSeen) {
  const OptionalPolicy policy = amp::Policy{.level = amp::Level::kO2};
  Training plain;
  Training graphed;
  TrainGraph graph(graphed, policy);
  const std::map<std::string, Tensor> loaded{{"fc.bias", from_values({1.0F, -2.0F, 0.5F}, {3})}};
  for (int i = 0; i < 4; ++i) {
    const amp::Batch batch = amp::small_batch(static_cast<std::uint64_t>(i));
    for (Training* training : {&plain, &graphed}) {
      const NoGrad guard;
      if (i == 1) fill(training->net.parameters()[0], 0.25);
      if (i == 2) training->net.load_state(loaded, false);
      if (i == 3) training->optimizer.set_lr(0.3);
    }
    EXPECT_EQ(graph(batch.images, batch.labels).item(),
              plain_step(plain, policy, batch.images, batch.labels).item());
  }
  EXPECT_TRUE(graphed.everything() == plain.everything());
  EXPECT_EQ(graph.programs(), 1U);
}

// Copies the contents of a checkpoint from one training to another.
void copy_state(const Training& from, Training& to) {
  to.net.load_state(from.net.state());
  for (const NamedTensor& entry : from.optimizer.state()) {
    to.optimizer.set_state(entry.name, entry.tensor);
  }
  for (const optim::NamedCounter& counter : from.optimizer.counters()) {
    to.optimizer.set_counter(counter.name, counter.value);
  }
  to.scaler.load_state_dict(from.scaler.state_dict());
}

TEST(UserGraph, CheckpointsGoBothWays) {
  const OptionalPolicy policy = amp::Policy{.level = amp::Level::kO2, .lower = DType::kF16};
  for (const bool from_graph : {false, true}) {
    Training a;
    Training b;
    TrainGraph graph_a(a, policy);
    TrainGraph graph_b(b, policy);
    const auto step = [&](Training& training, TrainGraph& graph, bool graphed, std::uint64_t i) {
      const amp::Batch batch = amp::small_batch(i);
      return graphed ? graph(batch.images, batch.labels).item()
                     : plain_step(training, policy, batch.images, batch.labels).item();
    };
    for (std::uint64_t i = 0; i < 3; ++i) step(a, graph_a, from_graph, i);
    step(b, graph_b, !from_graph, 7);  // diverges to another state
    copy_state(a, b);
    for (std::uint64_t i = 3; i < 6; ++i) {
      EXPECT_EQ(step(b, graph_b, !from_graph, i), step(a, graph_a, from_graph, i));
    }
    EXPECT_TRUE(a.everything() == b.everything());
    EXPECT_EQ(a.scaler.state_dict(), b.scaler.state_dict());
  }
}

// fc2(relu(fc1(x)) + x): the sum is f32 eagerly, and in 16 bits where calls are painted.
class Residual : public nn::Module {
 public:
  Residual() {
    add("fc1", fc1_);
    add("fc2", fc2_);
  }
  Tensor hidden(const Tensor& x) { return relu(fc1_(x)) + x; }
  Tensor forward(const Tensor& x) override { return fc2_(hidden(x)); }
  const Tensor& weight() const { return fc2_.weight(); }

 private:
  nn::Linear fc1_{16, 16};
  nn::Linear fc2_{16, 3};
};

class ResidualGraph : public Graph<Tensor(Tensor, Tensor)> {
 public:
  explicit ResidualGraph(Residual& net) : net_(net) {
    add_module(net);
    config.enable_amp(true, DType::kBf16);
  }

 private:
  Tensor build(const Tensor& x, const Tensor& labels) override {
    return cross_entropy(net_(x), labels);
  }
  Residual& net_;
};

Tensor magnitude(const Tensor& x) { return relu(x) + relu(x * -1); }

TEST(UserGraph, PaintedCallsRoundALittleMore) {
  manual_seed(3);
  Residual net;
  ResidualGraph graph(net);
  const Tensor x = randn({8, 16});
  const Tensor labels = from_values<std::int64_t>({0, 1, 2, 0, 1, 2, 0, 1}, {8});
  const double loss = graph(x, labels).item();
  const NoGrad guard;
  double eager = 0;
  {
    const amp::Autocast region(DType::kBf16);
    eager = cross_entropy(net(x), labels).item();
  }
  // Each hidden value is a sum of two. x and fc1's result are rounded, so is the sum, and so are
  // the logits, all by at most half an epsilon. A loss changes by twice as much as a logit.
  const Tensor hidden = magnitude(net.hidden(x)) + magnitude(x) * 2;
  const Tensor reach = matmul(hidden, transpose(magnitude(net.weight())));
  double most = 0;
  for (const double logit : reach.to_vector<double>()) most = std::max(most, logit);
  EXPECT_NEAR(loss, eager, 2 * 4 * epsilon_of(DType::kBf16) / 2 * most);
  EXPECT_NE(to_text(graph.program()).find(": bf16[8, 16] = add("), std::string::npos)
      << to_text(graph.program());
}

// In a step that is compiled without a graph, clipping runs in each run.
TEST(CapturedClipping, IsWhatItIsEagerly) {
  const auto train = [](bool captured) {
    manual_seed(4);
    amp::SmallNet net;
    optim::Sgd sgd(net.parameters(), {.lr = 0.1});
    std::vector<double> norms;
    const Step step = [&](std::span<const Tensor> in) {
      const Tensor loss = loss_of(net, in[0], in[1]);
      loss.backward();
      norms.push_back(optim::clip_grad_norm(sgd.params(), 0.5));
      optim::clip_grad_value(sgd.params(), 0.05);
      sgd.step();
      sgd.zero_grad();
      return std::vector<Tensor>{loss};
    };
    CompiledStep compiled = compile(step, {.networks = {&net}});
    const amp::Batch first = amp::small_batch(1);
    const Tensor batch[] = {first.images, first.labels};
    for (int i = 0; i < 3; ++i) captured ? compiled(batch) : step(batch);
    EXPECT_EQ(norms.size(), captured ? 1U : 3U);
    EXPECT_EQ(std::isnan(norms[0]), captured);
    return amp::everything(net, sgd);
  };
  EXPECT_TRUE(train(true) == train(false));
}

}  // namespace
}  // namespace mezzo::graph
