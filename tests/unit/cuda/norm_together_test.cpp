// Tests batch normalisation on cards with the statistics of the batches of several processes.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/cuda/processes_on_cards.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using distributed::ProcessGroup;
using test::on_cards;
using test::Route;
using testing::HasSubstr;

using CardNormTogether = OnCard<>;
using Numbers = std::vector<double>;

constexpr std::int64_t kImages = 8;    // over all processes
constexpr std::int64_t kChannels = 5;  // not a whole pack
const Shape kShape{kImages, kChannels, 3, 2};

struct Kind {
  DType dtype = DType::kF32;
  bool relu = false;
  bool has_residual = false;
};

// The results of a normalisation and its gradients.
struct Result {
  Numbers y, mean, var, grad_x, grad_residual, grad_weight, grad_bias;
  bool operator==(const Result&) const = default;
};

struct Operands {
  Tensor x, residual, grad, weight, bias;
};

// Channels whose means differ, in every image.
Operands operands(DType dtype) {
  Generator generator(7);
  const auto draw = [&](const Shape& shape) { return randn(shape, generator); };
  const Tensor shift = draw({kImages, kChannels, 1, 1}) * 3;
  return {cast(draw(kShape) + shift, dtype), cast(draw(kShape), dtype), cast(draw(kShape), dtype),
          draw({kChannels}), draw({kChannels})};
}

Tensor leaf(const Tensor& tensor, Device device) {
  Tensor copy = copy_of(tensor).to(device);
  if (device.is_cpu()) copy = copy_of(copy);
  copy.set_requires_grad(true);
  return copy;
}

// The result for this process's images on the device; for all images if `group` is null.
Result normalised(const Kind& kind, Device device, ProcessGroup* group) {
  const std::int64_t each = group != nullptr ? kImages / group->size() : kImages;
  const std::int64_t begin = group != nullptr ? group->rank() * each : 0;
  const auto own = [&](const Tensor& all) { return slice(all, 0, begin, begin + each); };
  const Operands all = operands(kind.dtype);
  const Tensor x = leaf(own(all.x), device);
  const Tensor residual = kind.has_residual ? leaf(own(all.residual), device) : Tensor();
  const Tensor weight = leaf(all.weight, device);
  const Tensor bias = leaf(all.bias, device);
  const BatchNormResult norm =
      batch_norm(x, weight, bias, {.relu = kind.relu, .residual = residual, .processes = group});
  norm.y.backward(copy_of(own(all.grad)).to(device));
  const auto numbers = [](const Tensor& tensor) { return tensor.to_vector<double>(); };
  return {numbers(norm.y),
          numbers(norm.mean),
          numbers(norm.var),
          numbers(x.grad()),
          kind.has_residual ? numbers(residual.grad()) : Numbers(),
          numbers(weight.grad()),
          numbers(bias.grad())};
}

void expect_near(const Numbers& actual, const Numbers& expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << ' ' << i;
  }
}

// Sums of 48 terms below 8 in f32, and a few roundings of the result in its dtype.
double tolerance_of(DType dtype) {
  return 48 * 8 * 0x1p-24 + (dtype == DType::kBf16  ? 4 * 0x1p-8
                             : dtype == DType::kF16 ? 4 * 0x1p-11
                                                    : 0);
}

// Processes on CPUs compute the same in another order.
void expect_that_of_cpus(const Kind& kind, int size, Route route) {
  SCOPED_TRACE(concat(kind.dtype, kind.relu ? " relu" : "", kind.has_residual ? " residual" : "",
                      ", ", size, " processes, ", test::name_of(route)));
  std::vector<Result> found(static_cast<std::size_t>(size));
  on_cards(size, route, [&](ProcessGroup& group, Device card) {
    found[static_cast<std::size_t>(group.rank())] = normalised(kind, card, &group);
  });
  const auto expected = test::results_of<Result>(
      size, [&](ProcessGroup& group) { return normalised(kind, kCpuDevice, &group); });
  const double tolerance = tolerance_of(kind.dtype);
  const double sums = tolerance_of(DType::kF32);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].mean, found[0].mean);
    EXPECT_EQ(found[i].var, found[0].var);
    expect_near(found[i].mean, expected[i].mean, sums, "mean");
    expect_near(found[i].var, expected[i].var, sums, "var");
    expect_near(found[i].y, expected[i].y, tolerance, "y");
    expect_near(found[i].grad_x, expected[i].grad_x, tolerance, "grad_x");
    expect_near(found[i].grad_residual, expected[i].grad_residual, tolerance, "grad_residual");
    expect_near(found[i].grad_weight, expected[i].grad_weight, sums, "grad_weight");
    expect_near(found[i].grad_bias, expected[i].grad_bias, sums, "grad_bias");
  }
}

TEST_F(CardNormTogether, IsThatOfCpus) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const int size : {2, 4}) {
      for (const Route route : test::routes_of(size)) {
        expect_that_of_cpus({dtype}, size, route);
        expect_that_of_cpus({dtype, true}, size, route);
        expect_that_of_cpus({dtype, true, true}, size, route);
      }
    }
  }
}

// The host computes f64, and exchanges there.
TEST_F(CardNormTogether, InF64ItIsComputedOnTheHost) {
  on_cards(2, Route::kHost, [](ProcessGroup& group, Device card) {
    const Tensor x = full({2, 1}, group.rank() == 0 ? 1.0 : 5.0, DType::kF64).to(card);
    const BatchNormResult norm = batch_norm(x, {}, {}, {.eps = 0, .processes = &group});
    EXPECT_EQ(norm.mean.to_vector<double>(), Numbers{3});
    EXPECT_EQ(norm.y.to_vector<double>(), Numbers(2, group.rank() == 0 ? -1 : 1));
  });
}

// One value in each process, which has no variance by itself.
TEST_F(CardNormTogether, TakesOneValueOfEach) {
  for (const Route route : test::routes_of(2)) {
    on_cards(2, route, [](ProcessGroup& group, Device card) {
      const Tensor x = full({1, 1}, group.rank() == 0 ? 1.0 : 5.0).to(card);
      const Tensor y = batch_norm(x, {}, {}, {.eps = 0, .processes = &group}).y;
      EXPECT_EQ(floats(y), std::vector<float>{group.rank() == 0 ? -1.0F : 1.0F});
    });
  }
}

// No card's own sums, but those of f64 in the order of the processes.
TEST_F(CardNormTogether, HasTheSameBitsWhicheverWay) {
  if (!test::has_route(Route::kNccl, 4)) GTEST_SKIP() << "there are no four cards";
  std::vector<std::vector<Result>> found;
  for (const Route route : {Route::kNccl, Route::kHost}) {
    std::vector<Result>& results = found.emplace_back(4);
    on_cards(4, route, [&](ProcessGroup& group, Device card) {
      results[static_cast<std::size_t>(group.rank())] = normalised({.relu = true}, card, &group);
    });
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found[0][i], found[1][i]) << i;
}

// Through the host at once, by NCCL when the card is waited for.
TEST_F(CardNormTogether, OtherCountsAreRefusedEverywhere) {
  for (const Route route : test::routes_of(2)) {
    on_cards(2, route, [](ProcessGroup& group, Device card) {
      const Tensor x = ones({2 + group.rank(), 3}).to(card);
      EXPECT_THAT(message_of<ArgumentError>([&] {
                    batch_norm(x, {}, {}, {.processes = &group});
                    synchronize(card);
                  }),
                  HasSubstr("process 0 has 2 values per channel, process 1 3"));
    });
  }
}

}  // namespace
}  // namespace mezzo
