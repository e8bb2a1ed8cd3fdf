#include "mezzo/graph/move_host_work.h"

#include <gtest/gtest.h>

#include "mezzo/graph/capture.h"
#include "mezzo/graph/text.h"
#include "mezzo/graph/verify.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/ops/relu.h"

namespace mezzo::graph {
namespace {

// The names of calls and of host work, in order.
std::string order_of(const Program& program) {
  std::string order;
  for (const Node& node : program.nodes) {
    order += concat(order.empty() ? "" : " ", node.is_host() ? node.host : node.op->name);
  }
  return order;
}

TEST(MoveHostWork, WorkThatCanWaitIsDoneBeforeOtherHostWorkAndAtTheEnd) {
  const Tensor x = ones({2});
  const auto step = [](std::span<const Tensor> in) {
    const auto work = [](std::span<const Tensor>) { return true; };
    Tensor y = in[0];
    for (const char* name : {"first", "second"}) {
      y = relu(y);
      do_host_work(name, {&y, 1}, {}, work, HostWorkTime::kCanWait);
    }
    y = relu(y);
    do_host_work("look", {&y, 1}, {}, work);
    y = relu(y);
    do_host_work("third", {&y, 1}, {}, work, HostWorkTime::kCanWait);
    return std::vector<Tensor>{relu(y)};
  };
  const Program program = capture(step, {&x, 1});
  EXPECT_EQ(order_of(program), "relu first relu second relu look relu third relu");
  const Program moved = with_host_work_moved(program);
  EXPECT_EQ(order_of(moved), "relu relu relu first second look relu relu third");
  verify(moved);
}

TEST(MoveHostWork, WorkThatCanGoAheadIsDoneFirstButBehindWorkInItsPlace) {
  const Tensor x = ones({2});
  const auto step = [](std::span<const Tensor> in) {
    const auto work = [](std::span<const Tensor>) { return true; };
    Tensor y = relu(in[0]);
    do_host_work("waits", {&y, 1}, {}, work, HostWorkTime::kCanWait);
    do_host_work("first", {}, {}, work, HostWorkTime::kCanGoAhead);
    y = relu(y);
    do_host_work("second", {}, {}, work, HostWorkTime::kCanGoAhead);
    y = relu(y);
    do_host_work("look", {&y, 1}, {}, work);
    y = relu(y);
    do_host_work("third", {}, {}, work, HostWorkTime::kCanGoAhead);
    do_host_work("reads", {&y, 1}, {}, work, HostWorkTime::kCanGoAhead);
    return std::vector<Tensor>{relu(y)};
  };
  const Program moved = with_host_work_moved(capture(step, {&x, 1}));
  EXPECT_EQ(order_of(moved), "first second relu relu relu waits look third relu reads relu");
  verify(moved);
}

TEST(MoveHostWork, StatisticsOfBatchNormCanWait) {
  nn::BatchNorm1d norm(3);
  const Tensor x = ones({2, 3});
  const Program program = capture(
      [&](std::span<const Tensor> in) { return std::vector<Tensor>{norm(norm(in[0]))}; }, {&x, 1});
  EXPECT_EQ(order_of(with_host_work_moved(program)),
            "batch_norm batch_norm batch_norm.track batch_norm.track");
}

}  // namespace
}  // namespace mezzo::graph
