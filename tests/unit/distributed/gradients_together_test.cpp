// Tests gradients of processes that train together.
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/gradients.h"
#include "tests/unit/distributed/processes.h"
#include "tests/unit/message_of.h"

namespace mezzo::optim {
namespace {

using distributed::ProcessGroup;
using test::in_processes;
using testing::HasSubstr;

Tensor parameter(const Shape& shape, DType dtype = DType::kF32) {
  Tensor param = zeros(shape).astype(dtype);
  param.set_requires_grad(true);
  return param;
}

// Small gradients, which are exchanged together, large ones, and more than fit into one exchange.
TEST(AverageGradients, GivesEveryProcessTheMeanOfAll) {
  const std::vector<Shape> shapes = {{3}, {300, 301}, {2, 5}, {250, 250}, {60000}, {61000}, {1}};
  in_processes(2, [&](ProcessGroup& group) {
    std::vector<Tensor> params;
    std::vector<std::vector<float>> expected;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Generator generators[] = {Generator(2 * i), Generator(2 * i + 1)};
      const Tensor grads[] = {randn(shapes[i], generators[0]), randn(shapes[i], generators[1])};
      params.push_back(parameter(shapes[i]));
      params.back().set_grad(grads[group.rank()]);
      auto& mean = expected.emplace_back(grads[0].to_vector<float>());
      const auto other = grads[1].to_vector<float>();
      for (std::size_t j = 0; j < mean.size(); ++j) mean[j] = (mean[j] + other[j]) * 0.5F;
    }
    average_gradients(params, group);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(params[i].grad().to_vector<float>(), expected[i]) << i;
    }
  });
}

// 1 and 2^-9 are exact in bf16, but their sum is not: in 16 bits one of them would be lost.
TEST(AverageGradients, OfSixteenBitsAreF32) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    in_processes(2, [&](ProcessGroup& group) {
      const Tensor param = parameter({70'000}, dtype);
      const float small = dtype == DType::kBf16 ? 0x1p-9F : 0x1p-12F;
      param.set_grad(full({70'000}, group.rank() == 0 ? 1.0F : small).astype(dtype));
      average_gradients(std::vector{param}, group);
      EXPECT_EQ(param.grad().dtype(), DType::kF32);
      EXPECT_EQ(param.grad().to_vector<float>()[69'999], (1.0F + small) / 2);
    });
  }
}

// The root mean square of the error, of the mean's: two roundings of normal numbers.
TEST(AverageGradients, InSixteenBitsHaveSmallErrors) {
  for (const int processes : {2, 3, 4}) {
    for (const auto& [dtype, most] : {std::pair(DType::kBf16, 0.0026), {DType::kF16, 0.00033}}) {
      in_processes(processes, [&, dtype = dtype, most = most](ProcessGroup& group) {
        Generator generator(static_cast<std::uint64_t>(group.rank()));
        const std::vector<Tensor> params = {parameter({100'000}), parameter({100'000})};
        for (const Tensor& param : params) param.set_grad(randn({100'000}, generator));
        average_gradients(std::span(params).last(1), group);
        params[0].set_grad(params[1].grad());
        Generator again(static_cast<std::uint64_t>(group.rank()));
        static_cast<void>(randn({100'000}, again));
        params[1].set_grad(randn({100'000}, again));
        average_gradients(std::span(params).last(1), group, dtype);
        const Tensor error = params[1].grad() - params[0].grad();
        const double squares = sum(error * error).item();
        const double whole = sum(params[0].grad() * params[0].grad()).item();
        EXPECT_LT(std::sqrt(squares / whole), most) << processes;
        EXPECT_GT(squares, 0);
      });
    }
  }
}

// Two parameters that were added share one gradient.
TEST(AverageGradients, OneThatIsSharedIsAveragedOnceForEach) {
  in_processes(2, [](ProcessGroup& group) {
    const std::vector<Tensor> params = {parameter({2}), parameter({2})};
    const Tensor grad = full({2}, group.rank() == 0 ? 1.0F : 5.0F);
    for (const Tensor& param : params) param.set_grad(grad);
    average_gradients(params, group);
    for (const Tensor& param : params) {
      EXPECT_EQ(param.grad().to_vector<float>(), (std::vector<float>{3, 3}));
    }
    EXPECT_EQ(grad.to_vector<float>()[0], group.rank() == 0 ? 1.0F : 5.0F);
  });
}

TEST(AverageGradients, WhereNobodyHasOneThereIsNone) {
  in_processes(2, [](ProcessGroup& group) {
    const std::vector<Tensor> params = {parameter({2}), parameter({2})};
    params[1].set_grad(full({2}, 1));
    average_gradients(params, group);
    EXPECT_FALSE(params[0].grad().defined());
    EXPECT_TRUE(params[1].grad().defined());
  });
}

TEST(AverageGradients, OneThatIsMissingSomewhereIsNamedEverywhere) {
  for (const int without : {0, 1, 2}) {
    in_processes(3, [&](ProcessGroup& group) {
      const std::vector<Tensor> params = {parameter({2}), parameter({2})};
      params[0].set_grad(full({2}, 1));
      if (group.rank() != without) params[1].set_grad(full({2}, 1));
      const std::string other = without == 0 ? "1" : "0";
      EXPECT_THAT(message_of<ArgumentError>([&] { average_gradients(params, group); }),
                  HasSubstr(concat("[average_gradients] the gradient of parameter 1 is missing in "
                                   "process ",
                                   without, ", unlike in process ", other)));
    });
  }
}

TEST(AverageGradients, OnesThatLieDifferentlyAreRefused) {
  in_processes(2, [](ProcessGroup& group) {
    const Tensor param = parameter({2, 3, 4, 5});
    const Tensor grad = full({2, 3, 4, 5}, 1);
    param.set_grad(group.rank() == 0 ? grad : to_format(grad, Format::kChannelsLast));
    EXPECT_THAT(message_of<ArgumentError>([&] { average_gradients(std::vector{param}, group); }),
                HasSubstr("parameter 0 differs in shape or format in process 1"));
  });
}

TEST(AverageGradients, OtherNumbersOfParametersAreRefused) {
  in_processes(2, [](ProcessGroup& group) {
    std::vector<Tensor> params = {parameter({2})};
    if (group.rank() == 1) params.push_back(parameter({2}));
    EXPECT_THAT(message_of<ArgumentError>([&] { average_gradients(params, group); }),
                HasSubstr("the number of parameters of process 1 is 2, that of process 0 1"));
  });
}

}  // namespace
}  // namespace mezzo::optim
