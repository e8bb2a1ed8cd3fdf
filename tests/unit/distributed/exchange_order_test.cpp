// Tests that gradients are sent when they are complete, and that optimizers that processes share
// are not used otherwise.
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/optim/sharded.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::test {
namespace {

using distributed::ProcessGroup;
using testing::HasSubstr;
using TiedWeights = std::vector<std::vector<float>>;

constexpr std::int64_t kWidth = 1100;  // a layer's gradient has 4.8 MB, more than a bucket

class ReluBlock : public nn::Module {
 public:
  ReluBlock() { add("linear", linear_); }
  Tensor forward(const Tensor& x) override { return relu(linear_(x)); }

 private:
  nn::Linear linear_{kWidth, kWidth};
};

// A layer that is used twice, between two others. Each is a bucket of its own.
class TiedNet : public nn::Module {
 public:
  explicit TiedNet(bool norms = false) : norms_(norms) {
    add("first", first_);
    add("bn", norm_);
    add("tied", tied_);
    add("last", last_);
    Generator generator(3);
    for (const Tensor& param : parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.03, param);
    }
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = first_(x);
    const Tensor z = tied_(norms_ ? norm_(y) : y);
    return last_(tied_(z) + z);
  }
  ReluBlock& tied() { return tied_; }
  ReluBlock& last() { return last_; }

 private:
  bool norms_;
  ReluBlock first_;
  nn::BatchNorm1d norm_{kWidth};
  ReluBlock tied_;
  ReluBlock last_;
};

constexpr std::int64_t kRows = 4;  // of all processes

Tensor rows_of(int step, const ProcessGroup* group) {
  Generator generator(static_cast<std::uint64_t>(step));
  const Tensor all = randn({kRows, kWidth}, generator);
  if (group == nullptr) return all;
  const std::int64_t each = kRows / group->size();
  return copy_of(slice(all, 0, group->rank() * each, (group->rank() + 1) * each));
}

Tensor mean_square(const Tensor& y) { return mean(y * y); }

TiedWeights weights_in(const nn::Module& net) {
  TiedWeights numbers;
  for (const Tensor& param : net.parameters()) numbers.push_back(param.to_vector<float>());
  return numbers;
}

struct TiedKind {
  bool graph = false;
  bool shards = false;
  bool recomputes = false;
  bool norms = false;
  std::int64_t micro_batches = 1;
};

TiedWeights train_tied(const TiedKind& kind, ProcessGroup* group) {
  TiedNet net(kind.norms);
  if (kind.recomputes) nn::recompute(net.tied());
  if (kind.norms && group != nullptr) nn::convert_sync_batchnorm(net, *group);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  amp::TrainStep step(
      net, [](const Tensor& y, const Tensor&) { return mean_square(y); }, optimizer,
      amp::GradScaler({}, false),
      {.micro_batches = kind.micro_batches, .processes = group, .shard_optimizer = kind.shards});
  if (kind.graph) step.set_execution(graph::captured(net));
  for (int i = 0; i < 2; ++i) {
    const Tensor rows = rows_of(i, group);
    step(rows, zeros({rows.size(0)}));
  }
  return weights_in(net);
}

std::vector<TiedWeights> train_tied_together(const TiedKind& kind) {
  return results_of<TiedWeights>(2, [&](ProcessGroup& group) { return train_tied(kind, &group); });
}

// By a loop that sends nothing before the backward pass has ended. (One process on micro-batches
// adds the gradients of tied weights in another order.)
TiedWeights train_tied_by_a_loop(ProcessGroup& group, bool shards) {
  TiedNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  if (shards) optimizer.shard(optim::shard_of(group));
  for (int i = 0; i < 2; ++i) {
    optimizer.zero_grad();
    mean_square(net(rows_of(i, &group))).backward();
    optim::average_gradients(optimizer.whole_params(), group);
    if (shards) optim::give_gradients_to_parts(optimizer);
    optimizer.step();
    if (shards) optim::gather_params(optimizer, group);
  }
  return weights_in(net);
}

TiedWeights expected_of_tied(bool shards) {
  const auto all = results_of<TiedWeights>(
      2, [&](ProcessGroup& group) { return train_tied_by_a_loop(group, shards); });
  EXPECT_TRUE(all[0] == all[1]);
  return all[0];
}

TEST(ExchangeOrder, TiedAndRecomputedWeightsAreSentAfterTheirLastUse) {
  const TiedWeights expected = expected_of_tied(false);
  for (const bool recomputes : {false, true}) {
    for (const TiedKind& kind : {TiedKind{}, TiedKind{.graph = true}, TiedKind{.shards = true},
                                 TiedKind{.graph = true, .shards = true}}) {
      TiedKind one = kind;
      one.recomputes = recomputes;
      for (const TiedWeights& weights : train_tied_together(one)) {
        EXPECT_TRUE(weights == expected) << recomputes << kind.graph << kind.shards;
      }
    }
  }
}

// Statistics are exchanged within the backward pass, too. Sums of products in another order.
TEST(ExchangeOrder, SynchronizedNormsMeetInTheBackwardPass) {
  const TiedWeights expected = train_tied({.norms = true}, nullptr);
  for (const bool graph : {false, true}) {
    for (const bool shards : {false, true}) {
      const auto all = train_tied_together({.graph = graph, .shards = shards, .norms = true});
      EXPECT_TRUE(all[0] == all[1]);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(all[0][i][7], expected[i][7], 1e-4) << i;
      }
    }
  }
}

// Parameters that one process does not use have no gradient there. That is found at the end of the
// backward pass, when other buckets were sent.
TEST(ExchangeOrder, AGradientThatIsMissingInOneIsNamedInAll) {
  for (const bool shards : {false, true}) {
    in_processes(2, [&](ProcessGroup& group) {
      TiedNet net;
      optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
      const auto loss = [&](mezzo::Batch& batch) {
        const Tensor y = net.tied()(batch.inputs[0]);
        return mean(group.rank() == 0 ? net.last()(y) : y);
      };
      amp::TrainStep step(net, loss, optimizer, amp::GradScaler({}, false),
                          {.processes = &group, .shard_optimizer = shards});
      EXPECT_THAT(message_of<ArgumentError>([&] { step(rows_of(0, &group), zeros({2})); }),
                  HasSubstr("is missing in process 1, unlike in process 0"));
    });
  }
}

TEST(SharedOptimizer, AStepThatWouldTrainNothingIsRefused) {
  in_processes(2, [](ProcessGroup& group) {
    TiedNet net;
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
    optimizer.shard(optim::shard_of(group));
    mean(net(rows_of(0, &group))).backward();
    EXPECT_THAT(message_of<ArgumentError>([&] { optimizer.step(); }),
                HasSubstr("has a gradient as a whole, but this optimizer updates part "));
    const auto loss = [](const Tensor& y, const Tensor&) { return mean(y); };
    EXPECT_THAT(message_of<ArgumentError>(
                    [&] { amp::TrainStep(net, loss, optimizer, amp::GradScaler({}, false)); }),
                HasSubstr("and this step is not one of as many processes"));
  });
}

TEST(SharedOptimizer, IsUsedInLoopsOfOnesOwn) {
  EXPECT_TRUE(expected_of_tied(true) == expected_of_tied(false));
}

TEST(SharedOptimizer, ZeroGradDropsWholeGradientsToo) {
  in_processes(2, [](ProcessGroup& group) {
    TiedNet net;
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
    optimizer.shard(optim::shard_of(group));
    mean(net(rows_of(0, &group))).backward();
    optimizer.zero_grad();
    for (const Tensor& param : net.parameters()) EXPECT_FALSE(param.grad().defined());
  });
}

TEST(SharedOptimizer, OtherStatesAreRefusedEverywhere) {
  in_processes(2, [](ProcessGroup& group) {
    TiedNet net;
    optim::Sgd optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
    optimizer.shard(optim::shard_of(group));
    if (group.rank() == 0) {
      optimizer.set_state("momentum.0", zeros(optimizer.whole_params()[0].shape()));
    }
    EXPECT_THAT(message_of<ArgumentError>([&] { optim::gathered_state(optimizer, group); }),
                HasSubstr("the number of the optimizer's states of process 1 is 0"));
  });
}

void expect_covered(std::int64_t numel, int parts) {
  std::int64_t end = 0;
  for (int part = 0; part < parts; ++part) {
    const optim::ShardRange range = optim::range_of(numel, {part, parts});
    EXPECT_EQ(range.begin, end);
    EXPECT_LE(range.size(), optim::largest_part(numel, parts));
    end = range.end;
  }
  EXPECT_EQ(end, numel) << parts;
}

TEST(SharedOptimizer, PartsCoverEveryParameterOnce) {
  for (const int parts : {1, 2, 3, 4, 7}) {
    for (const std::int64_t numel : {0, 1, 255, 256, 257, 1000, 4096, 100'003}) {
      expect_covered(numel, parts);
    }
  }
}

}  // namespace
}  // namespace mezzo::test
