// Tests matrix products that the updates which read them compute row by row.
#include "mezzo/ops/fusion/result_rows.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/matmul_attrs.h"
#include "tests/unit/ops/support.h"
#include "tests/unit/optim/steps.h"

namespace mezzo {
namespace {

using test::random_tensor;
using test::Threads;

const OpDef& matmul_op() {
  static const OpDef* const kMatmul = find_op("matmul");
  return *kMatmul;
}

// One call of matmul.
struct RowsCall {
  Tensor a, b, bias{};
  MatmulAttrs attrs{};
  DType result = DType::kF32;

  std::array<const Tensor*, 3> inputs() const { return {&a, &b, &bias}; }
  Shape shape() const {
    Shape shape = a.shape();
    const std::size_t last = shape.rank() - 1;
    if (attrs.transpose_a) shape[last - 1] = shape[last];
    shape[last] = b.size(attrs.transpose_b ? -2 : -1);
    return shape;
  }
  Tensor at_once() const {
    Tensor out = empty(shape(), result);
    run_kernel(matmul_op(), inputs(), {&out, 1}, attrs);
    return out;
  }
  std::unique_ptr<ResultRows> rows() const {
    Tensor out = empty(shape(), result);
    return rows_of(matmul_op(), inputs(), {&out, 1}, attrs);
  }
  Tensor when_asked() const {
    return result_when_asked(matmul_op(), inputs(), attrs, shape(), result);
  }
};

// The gradient with respect to a weight: [batch, rows]^T [batch, columns], with the operands as
// they are or transposed.
RowsCall gradient(std::int64_t rows, std::int64_t batch, std::int64_t columns,
                  bool transpose_a = true, bool transpose_b = false) {
  const Shape a = transpose_a ? Shape{batch, rows} : Shape{rows, batch};
  const Shape b = transpose_b ? Shape{columns, batch} : Shape{batch, columns};
  return {.a = random_tensor(a, 1, DType::kBf16),
          .b = random_tensor(b, 2, DType::kBf16),
          .attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b, .f32_result = true}};
}

// The result of computing the rows in that many turns; every element is used once.
std::vector<float> by_rows(const ResultRows& rows, std::int64_t count, std::int64_t turns) {
  std::vector<float> result(static_cast<std::size_t>(count));
  std::vector<int> uses(result.size());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    rows.compute(rows.groups() * turn / turns, rows.groups() * (turn + 1) / turns,
                 [&](std::int64_t begin, std::int64_t end, const float* values) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     result[static_cast<std::size_t>(i)] = values[i - begin];
                     ++uses[static_cast<std::size_t>(i)];
                   }
                 });
  }
  for (const int use : uses) EXPECT_EQ(use, 1);
  return result;
}

class Rows : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  }
};

void expect_same_rows(const RowsCall& call) {
  const auto rows = call.rows();
  ASSERT_NE(rows, nullptr) << concat(call.shape());
  const std::vector<float> expected = call.at_once().to_vector<float>();
  const std::int64_t count = call.shape().numel();
  EXPECT_GE(rows->groups() * rows->group_elements(), count);
  for (const std::int64_t turns : {std::int64_t{1}, std::int64_t{2}, rows->groups()}) {
    ASSERT_TRUE(by_rows(*rows, count, turns) == expected) << concat(call.shape(), " in ", turns);
  }
}

TEST_F(Rows, HaveTheBitsOfTheCall) {
  for (const std::int64_t rows : {1, 16, 31, 33, 100}) {
    for (const std::int64_t columns : {1, 17, 32, 65, 130}) {
      for (const std::int64_t batch : {1, 31, 64}) expect_same_rows(gradient(rows, batch, columns));
    }
  }
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) expect_same_rows(gradient(70, 45, 90, a, b));
  }
}

// More columns than are copied at once.
TEST_F(Rows, OfManyColumns) {
  expect_same_rows(gradient(40, 64, 2100));
  expect_same_rows(gradient(33, 200, 1000));
  expect_same_rows(gradient(300, 2000, 600));
  expect_same_rows(gradient(65, 64, 4096));
}

TEST_F(Rows, AreThereForOneMatrixOfF32Alone) {
  EXPECT_NE(gradient(64, 64, 64).rows(), nullptr);
  EXPECT_NE(gradient(64, 2048, 64).rows(), nullptr);
  EXPECT_EQ(gradient(64, 2049, 64).rows(), nullptr);  // sums in several runs
  RowsCall narrow = gradient(64, 64, 64);
  narrow.attrs.f32_result = false;
  narrow.result = DType::kBf16;
  EXPECT_EQ(narrow.rows(), nullptr);
  RowsCall biased = gradient(64, 64, 64);
  biased.bias = random_tensor({64}, 3);
  EXPECT_EQ(biased.rows(), nullptr);
  const RowsCall batch{.a = random_tensor({2, 64, 64}, 1, DType::kBf16),
                       .b = random_tensor({2, 64, 64}, 2, DType::kBf16),
                       .attrs = {.f32_result = true}};
  EXPECT_EQ(batch.rows(), nullptr);
  const RowsCall wide{.a = random_tensor({64, 64}, 1), .b = random_tensor({64, 64}, 2)};
  EXPECT_EQ(wide.rows(), nullptr);
}

TEST_F(Rows, AreLeftUntilSomebodyAsks) {
  const RowsCall call = gradient(70, 64, 90);
  const Tensor later = call.when_asked();
  const PendingRows pending = pending_rows(later);
  ASSERT_NE(pending.rows, nullptr);
  EXPECT_EQ(pending.dtype, DType::kBf16);
  EXPECT_EQ(pending.flops, 2.0 * 70 * 64 * 90);
  EXPECT_EQ(pending.bytes, 2.0 * 64 * (70 + 90));
  const auto expected = call.at_once().to_vector<float>();
  EXPECT_TRUE(by_rows(*pending.rows, 70 * 90, 1) == expected);
  EXPECT_TRUE(later.to_vector<float>() == expected);
  EXPECT_EQ(pending_rows(later).rows, nullptr);
  EXPECT_EQ(pending_rows(call.at_once()).rows, nullptr);
}

TEST_F(Rows, AreGoneOnceWhatTheyAreMadeOfHasChanged) {
  const RowsCall call = gradient(70, 64, 90);
  const Tensor later = call.when_asked();
  fill(call.a, 1);
  EXPECT_EQ(pending_rows(later).rows, nullptr);
}

// The result of an update: the parameter, its 16-bit copy and the optimizer's state.
struct Left {
  std::vector<float> param, copy, first, second;
  bool operator==(const Left&) const = default;
};

using Update = std::function<void(const Tensor& param, const Tensor& grad, const Tensor& first,
                                  const Tensor& second)>;

std::vector<Update> updates() {
  const auto sgd = [](const SgdStep& step) {
    return [step](const Tensor& param, const Tensor& grad, const Tensor& first, const Tensor&) {
      const Tensor momentum = step.momentum != 0 ? first : Tensor();
      sgd_step(std::vector<SgdTensors>{{param, grad, momentum, false, {}}}, step);
    };
  };
  const auto adam = [](const AdamStep& step) {
    return
        [step](const Tensor& param, const Tensor& grad, const Tensor& first, const Tensor& second) {
          adam_step(std::vector<AdamTensors>{{param, grad, first, second, 3, {}}}, step);
        };
  };
  return {sgd({.lr = 0.1}), sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
          sgd({.lr = 0.1, .momentum = 0.9, .nesterov = true, .inv_scale = 0.125}),
          adam({.lr = 0.01}), adam({.lr = 0.01, .weight_decay = 0.1, .decoupled = true})};
}

// Updates with the gradient of a call, computed at once or on the way.
Left update(const RowsCall& call, const Update& step, bool on_the_way, bool has_copy) {
  const Tensor param = random_tensor(call.shape(), 5).set_requires_grad(true);
  const Tensor first = random_tensor(call.shape(), 6);
  const Tensor second = random_tensor(call.shape(), 7);
  for (std::int64_t i = 0; i < second.numel(); ++i) second.mutable_data<float>()[i] += 2;
  const NoGrad guard;
  if (has_copy) cast(param, DType::kBf16).address();
  const Tensor grad = on_the_way ? call.when_asked() : call.at_once();
  step(param, grad, first, second);
  EXPECT_EQ(grad.storage()->is_materialized(), !on_the_way);
  return {param.detach().to_vector<float>(),
          has_copy ? cast(param, DType::kBf16).to_vector<float>() : std::vector<float>(),
          first.to_vector<float>(), second.to_vector<float>()};
}

void expect_same_update(const RowsCall& call, const Update& step, bool has_copy) {
  const Left expected = update(call, step, false, has_copy);
  for (const int count : {1, 2, 3}) {
    const Threads threads(count);
    EXPECT_TRUE(update(call, step, true, has_copy) == expected)
        << concat(call.shape(), " on ", count, " threads, ", has_copy);
  }
}

TEST_F(Rows, UpdateParametersToTheSameBits) {
  constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
      {100, 70}, {33, 1}, {512, 300}, {40, 2100}};
  for (const auto& [rows, columns] : kShapes) {
    const RowsCall call = gradient(rows, 64, columns);
    for (const Update& step : updates()) {
      for (const bool has_copy : {false, true}) expect_same_update(call, step, has_copy);
    }
  }
}

// Together with parameters with ordinary gradients, in one step.
TEST_F(Rows, UpdateSomeOfTheParameters) {
  const RowsCall call = gradient(100, 64, 70);
  const auto step = [&](bool on_the_way) {
    std::vector<SgdTensors> all;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Tensor grad = i == 1 && on_the_way ? call.when_asked() : call.at_once();
      all.push_back({random_tensor(call.shape(), 5 + i),
                     grad,
                     random_tensor(call.shape(), 9 + i),
                     false,
                     {}});
    }
    sgd_step(all, {.lr = 0.1, .momentum = 0.9});
    std::vector<float> left;
    for (const SgdTensors& t : all) {
      const auto values = t.param.to_vector<float>();
      left.insert(left.end(), values.begin(), values.end());
    }
    return left;
  };
  EXPECT_TRUE(step(true) == step(false));
}

// A 16-bit parameter and a queued update need all elements.
TEST_F(Rows, AreFilledForOtherUpdates) {
  const RowsCall call = gradient(70, 64, 90);
  const auto half = [&](const Tensor& grad) {
    const Tensor param = random_tensor(call.shape(), 5, DType::kBf16);
    HalfUpdate update{.master = cast(param, DType::kF32)};
    sgd_step(std::vector<SgdTensors>{{param, grad, Tensor(), true, update}}, {.lr = 0.1});
    return update.master.to_vector<float>();
  };
  EXPECT_TRUE(half(call.when_asked()) == half(call.at_once()));
  const auto queued = [&](const Tensor& grad) {
    const Tensor param = random_tensor(call.shape(), 5);
    QueuedUpdate update(1, kCpuDevice);
    const SgdStep step{.lr = 0.1};
    update.put(updates_of(std::vector<SgdTensors>{{param, grad, Tensor(), true, {}}}, step),
               update_of(step));
    EXPECT_TRUE(grad.storage()->is_materialized());
    update.queue({});
    update.keep();
    return param.to_vector<float>();
  };
  EXPECT_TRUE(queued(call.when_asked()) == queued(call.at_once()));
}

}  // namespace
}  // namespace mezzo
