// Tests batch normalisation with the statistics of the batches of several processes.
#include <cmath>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using distributed::ProcessGroup;
using test::in_processes;
using test::results_of;
using testing::HasSubstr;

using Numbers = std::vector<double>;

constexpr std::int64_t kImages = 8;  // over all processes
constexpr std::int64_t kChannels = 5;
const Shape kShape{kImages, kChannels, 3, 2};

struct Kind {
  DType dtype = DType::kF64;
  bool relu = false;
  bool has_residual = false;
};

// The results of a normalisation and its gradients.
struct Result {
  Numbers y, mean, var, grad_x, grad_residual, grad_weight, grad_bias;
};

struct Operands {
  Tensor x, residual, grad, weight, bias;
};

// Channels whose means differ, in every image.
Operands operands(DType dtype) {
  Generator generator(7);
  const auto draw = [&](const Shape& shape) { return randn(shape, generator); };
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor shift = draw({kImages, kChannels, 1, 1}) * 3;
  return {cast(draw(kShape) + shift, dtype), cast(draw(kShape), dtype), cast(draw(kShape), dtype),
          cast(draw({kChannels}), wide), cast(draw({kChannels}), wide)};
}

Tensor leaf(const Tensor& tensor) {
  Tensor copy = copy_of(tensor);
  copy.set_requires_grad(true);
  return copy;
}

// The result for the images [begin, end).
Result normalised(const Kind& kind, std::int64_t begin, std::int64_t end,
                  ProcessGroup* processes = nullptr) {
  const Operands all = operands(kind.dtype);
  const Tensor x = leaf(slice(all.x, 0, begin, end));
  const Tensor residual = kind.has_residual ? leaf(slice(all.residual, 0, begin, end)) : Tensor();
  const Tensor weight = leaf(all.weight);
  const Tensor bias = leaf(all.bias);
  const BatchNormResult norm = batch_norm(
      x, weight, bias, {.relu = kind.relu, .residual = residual, .processes = processes});
  norm.y.backward(slice(all.grad, 0, begin, end));
  return {norm.y.to_vector<double>(),
          norm.mean.to_vector<double>(),
          norm.var.to_vector<double>(),
          x.grad().to_vector<double>(),
          kind.has_residual ? residual.grad().to_vector<double>() : Numbers(),
          weight.grad().to_vector<double>(),
          bias.grad().to_vector<double>()};
}

Result part_of(const Kind& kind, ProcessGroup& group) {
  const std::int64_t each = kImages / group.size();
  return normalised(kind, group.rank() * each, (group.rank() + 1) * each, &group);
}

// The joined results of several processes: images are concatenated, gradients of parameters added
// up.
Result joined(const std::vector<Result>& parts) {
  Result whole = parts.front();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const auto append = [&](Numbers Result::*field) {
      (whole.*field)
          .insert((whole.*field).end(), (parts[p].*field).begin(), (parts[p].*field).end());
    };
    for (const auto field : {&Result::y, &Result::grad_x, &Result::grad_residual}) append(field);
    for (const auto field : {&Result::grad_weight, &Result::grad_bias}) {
      for (std::size_t c = 0; c < kChannels; ++c) (whole.*field)[c] += (parts[p].*field)[c];
    }
  }
  return whole;
}

void expect_near(const Numbers& actual, const Numbers& expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << ' ' << i;
  }
}

// Sums of 48 terms below 8 in f32 or f64, and a few roundings of the result in its dtype.
double tolerance_of(DType dtype) {
  const double sums = 48 * 8 * (dtype == DType::kF64 ? 0x1p-53 : 0x1p-24);
  return sums + (dtype == DType::kBf16 ? 4 * 0x1p-8 : dtype == DType::kF16 ? 4 * 0x1p-11 : 0);
}

void expect_that_of_one_process(const Kind& kind, int size) {
  SCOPED_TRACE(concat(kind.dtype, kind.relu ? " relu" : "", kind.has_residual ? " residual" : "",
                      ", ", size, " processes"));
  const auto parts =
      results_of<Result>(size, [&](ProcessGroup& group) { return part_of(kind, group); });
  for (const Result& part : parts) {
    EXPECT_EQ(part.mean, parts.front().mean);
    EXPECT_EQ(part.var, parts.front().var);
  }
  const Result actual = joined(parts);
  const Result expected = normalised(kind, 0, kImages);
  const double tolerance = tolerance_of(kind.dtype);
  const double sums = tolerance_of(kind.dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  expect_near(actual.mean, expected.mean, sums, "mean");
  expect_near(actual.var, expected.var, sums, "var");
  expect_near(actual.y, expected.y, tolerance, "y");
  expect_near(actual.grad_x, expected.grad_x, tolerance, "grad_x");
  expect_near(actual.grad_residual, expected.grad_residual, tolerance, "grad_residual");
  expect_near(actual.grad_weight, expected.grad_weight, sums, "grad_weight");
  expect_near(actual.grad_bias, expected.grad_bias, sums, "grad_bias");
}

TEST(NormTogether, IsTheNormOfAllImages) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16}) {
    for (const int size : {2, 4, 8}) {
      expect_that_of_one_process({dtype}, size);
      expect_that_of_one_process({dtype, true}, size);
      expect_that_of_one_process({dtype, true, true}, size);
    }
  }
}

// One value in each process, which has no variance by itself.
TEST(NormTogether, TakesOneValueOfEach) {
  const auto results = results_of<Numbers>(2, [](ProcessGroup& group) {
    const Tensor x = full({1, 1}, group.rank() == 0 ? 1.0 : 5.0);
    return batch_norm(x, {}, {}, {.eps = 0, .processes = &group}).y.to_vector<double>();
  });
  EXPECT_EQ(results, (std::vector<Numbers>{{-1}, {1}}));
}

// Squares of 2^12 minus the squared mean would lose a variance of 1 in f32.
TEST(NormTogether, KeepsTheVarianceOfWhatIsFarFromZero) {
  in_processes(2, [](ProcessGroup& group) {
    const float low = group.rank() == 0 ? 4095 : 4097;
    const Tensor x = from_values(std::vector<float>{low, low, low + 2, low + 2}, {4, 1});
    const BatchNormResult norm = batch_norm(x, {}, {}, {.processes = &group});
    EXPECT_EQ(norm.mean.to_vector<double>(), Numbers{4097});
    EXPECT_EQ(norm.var.to_vector<double>(), Numbers{2});
  });
}

// One process has values whose variance f32 cannot hold. All processes see that, and the running
// statistics of that channel stay.
TEST(NormTogether, HugeNumbersOfOneProcessAreNanInAll) {
  in_processes(2, [](ProcessGroup& group) {
    const float size = group.rank() == 1 ? 3e19F : 1;
    const Tensor x = from_values(std::vector<float>{1, size, 2, -size}, {2, 2});
    nn::BatchNorm1d norm(2);
    EXPECT_EQ(nn::convert_sync_batchnorm(norm, group), 1);
    const Numbers y = norm(x).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 2 == 1) << i;
    EXPECT_NE(norm.running_var().to_vector<double>()[0], 1);
    EXPECT_EQ(norm.running_mean().to_vector<double>()[1], 0);
    EXPECT_EQ(norm.running_var().to_vector<double>()[1], 1);
  });
}

TEST(NormTogether, OtherCountsAreRefusedEverywhere) {
  in_processes(2, [](ProcessGroup& group) {
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  batch_norm(ones({2 + group.rank(), 3}), {}, {}, {.processes = &group});
                }),
                HasSubstr("process 0 has 2 values per channel, process 1 3"));
  });
}

TEST(NormTogether, GradientsOfGradientsAreRefused) {
  in_processes(2, [](ProcessGroup& group) {
    const Tensor x = leaf(from_values(std::vector<float>{1, 2, 4}, {3, 1}));
    const Tensor y = batch_norm(x, {}, {}, {.processes = &group}).y;
    EXPECT_THAT(
        message_of<UnsupportedError>([&] {
          grad(std::vector{y}, std::vector{x}, std::vector{ones({3, 1})}, {.create_graph = true});
        }),
        HasSubstr("[batch_norm] gradients of gradients"));
  });
}

// A layer's running statistics cover all images, and their variance is unbiased for that number.
TEST(ConvertSyncBatchnorm, FollowsTheStatisticsOfAll) {
  const Tensor images = cast(operands(DType::kF32).x, DType::kF32);
  nn::BatchNorm2d whole(kChannels);
  whole(images);
  const auto states = results_of<std::vector<Numbers>>(4, [&](ProcessGroup& group) {
    nn::BatchNorm2d norm(kChannels);
    EXPECT_EQ(nn::convert_sync_batchnorm(norm, group), 1);
    norm(copy_of(slice(images, 0, 2 * group.rank(), 2 * group.rank() + 2)));
    return std::vector<Numbers>{norm.running_mean().to_vector<double>(),
                                norm.running_var().to_vector<double>()};
  });
  for (const auto& state : states) EXPECT_EQ(state, states.front());
  const double tolerance = tolerance_of(DType::kF32);
  expect_near(states[0][0], whole.running_mean().to_vector<double>(), tolerance, "running_mean");
  expect_near(states[0][1], whole.running_var().to_vector<double>(), tolerance, "running_var");
}

TEST(ConvertSyncBatchnorm, SaysHowManyLayersThereAre) {
  in_processes(1, [](ProcessGroup& group) {
    amp::SmallNet net;
    nn::Linear linear(2, 3);
    EXPECT_EQ(nn::convert_sync_batchnorm(net, group), 1);
    EXPECT_EQ(nn::convert_sync_batchnorm(linear, group), 0);
  });
}

}  // namespace
}  // namespace mezzo
