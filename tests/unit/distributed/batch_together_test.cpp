// Tests processes whose loss is a function of a batch of several tensors.
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/two_towers.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::test {
namespace {

using Values = std::vector<std::vector<double>>;

// Two steps on the same batch, without dropout, whose numbers differ between processes.
Values step_on(const Batch& batch, amp::TrainStepOptions options, bool counted, bool graph) {
  manual_seed(3);
  TwoTowers net;
  net.eval();
  optim::Sgd sgd(net.parameters(), {.lr = 0.5});
  const CrossEntropyOptions kept{.reduction = Reduction::kSum, .ignore_index = 1};
  const amp::LossOfBatch loss =
      !counted
          ? two_tower_loss_of(net)
          : amp::LossOfBatch::mean_over(
                [kept](const Batch& part) { return cross_entropy_count(part.labels[1], kept); },
                [&net, kept](Batch& part) {
                  return cross_entropy(net(part.inputs)[2], part.labels[1], kept);
                });
  amp::TrainStep step(net, loss, sgd, amp::GradScaler({}, false), std::move(options));
  if (graph) step.set_execution(graph::captured(net));
  Values values;
  for (int i = 0; i < 2; ++i) values.push_back({step(batch).loss});
  for (auto& entry : amp::everything(net, sgd)) values.push_back(std::move(entry));
  return values;
}

// Sums of up to 64 terms of order 8, in another order: a tied weight gets the gradients of all its
// uses one after another.
void expect_near(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = 0; k < values[i].size(); ++k) {
      EXPECT_NEAR(values[i][k], expected[i][k], 64 * 8 * 0x1p-24) << i;
    }
  }
}

TEST(BatchTogether, ProcessesAreOneBatch) {
  const Batch batch = two_tower_batch(1, 8);
  const Values expected = step_on(batch, {}, false, false);
  for (const bool graph : {false, true}) {
    in_processes(2, [&](distributed::ProcessGroup& group) {
      const std::int64_t begin = group.rank() * 4;
      expect_near(step_on(batch.slice(begin, begin + 4), {.processes = &group}, false, graph),
                  expected);
    });
  }
}

// Their sizes and counts differ.
TEST(BatchTogether, CountsAreThoseOfAllProcesses) {
  const Batch batch = two_tower_batch(2, 8);
  for (const bool counted : {false, true}) {
    const Values expected = step_on(batch, {}, counted, false);
    in_processes(2, [&](distributed::ProcessGroup& group) {
      const Batch part = group.rank() == 0 ? batch.slice(0, 3) : batch.slice(3, 8);
      expect_near(step_on(part, {.processes = &group}, counted, false), expected);
    });
  }
}

}  // namespace
}  // namespace mezzo::test
