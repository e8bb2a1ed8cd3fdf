// Tests optimizers that keep their state in bf16 or e4m3: what they remember, what it costs, and
// that their bits depend on nothing but the numbers.
#include "mezzo/ops/update/narrow_state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "mezzo/core/half.h"
#include "mezzo/core/random.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/lion.h"
#include "mezzo/optim/rmsprop.h"
#include "mezzo/optim/sgd.h"
#include "mezzo/optim/step_in_parts.h"
#include "tests/unit/optim/rules.h"

namespace mezzo::optim {
namespace {

using ::testing::HasSubstr;

constexpr DType kNarrow[] = {DType::kBf16, DType::kE4m3};

using NarrowMaker = std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>, DType)>;

template <class Optimizer, class Options>
NarrowMaker maker_of(const Options& options) {
  return [own = options](std::vector<Tensor> params, DType dtype) mutable {
    own.state_dtype = dtype;
    return std::make_unique<Optimizer>(std::move(params), own);
  };
}

// Every optimizer that has state.
std::vector<NarrowMaker> narrow_makers() {
  return {maker_of<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9}),
          maker_of<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
          maker_of<Adam>(AdamOptions{.lr = 0.01, .beta1 = 0.3}),
          maker_of<AdamW>(AdamWOptions{.lr = 0.01}),
          maker_of<Lion>(LionOptions{.lr = 0.01}),
          maker_of<RmsProp>(RmsPropOptions{.lr = 0.01}),
          maker_of<RmsProp>(RmsPropOptions{.lr = 0.01, .momentum = 0.9})};
}

// The state tensor of that name.
Tensor state_named(const Optimizer& optimizer, const std::string& name) {
  for (const NamedTensor& entry : optimizer.state()) {
    if (entry.name == name) return entry.tensor;
  }
  return {};
}

// Adam's second moments in f32.
Doubles second_moments(const Optimizer& optimizer) {
  Doubles values = state_named(optimizer, "exp_avg_sq.0").to_vector<double>();
  const Tensor scales = state_named(optimizer, "exp_avg_sq_scale.0");
  if (!scales.defined()) return values;
  const auto scale = scales.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::pow(values[i] * scale[i / kStateBlock], 2);
  }
  return values;
}

double mean_of_moments(const Doubles& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Gradients of 1 for 500 steps and of 0.1 for 500 more.
constexpr int kHalf = 500;
double slow_gradient(int step) { return step < kHalf ? 1 : 0.1; }

// Adam's second moment after each half of the steps, where round(v) is what is kept of v.
Doubles moments_of(const std::function<double(double)>& round) {
  Doubles after;
  double v = 0;
  for (int step = 0; step < 2 * kHalf; ++step) {
    v = round(0.999 * v + 0.001 * std::pow(slow_gradient(step), 2));
    if (step % kHalf == kHalf - 1) after.push_back(v);
  }
  return after;
}

// The same of Adam, on average. Its gradients are `part` times as large: were all of a block the
// same, the scale alone would hold them.
Doubles mean_moments_of_adam(DType dtype) {
  constexpr std::int64_t kCount = 4096;
  const auto part = [](std::int64_t i) { return 0.25 + static_cast<double>(i % 97) / 64; };
  const Tensor param = parameter({kCount});
  Adam adam({param}, {.state_dtype = dtype});
  Doubles after;
  for (int step = 0; step < 2 * kHalf; ++step) {
    const Tensor grad = empty({kCount});
    float* data = grad.mutable_data<float>();
    for (std::int64_t i = 0; i < kCount; ++i) {
      data[i] = static_cast<float>(slow_gradient(step) * part(i));
    }
    param.set_grad(grad);
    adam.step();
    if (step % kHalf != kHalf - 1) continue;
    Doubles moments = second_moments(adam);
    for (std::int64_t i = 0; i < kCount; ++i) {
      moments[static_cast<std::size_t>(i)] /= std::pow(part(i), 2);
    }
    after.push_back(mean_of_moments(moments));
  }
  EXPECT_EQ(state_named(adam, "exp_avg_sq.0").dtype(), dtype);
  return after;
}

double largest_error(const Doubles& got, const Doubles& want) {
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]) / want[i]);
  }
  return error;
}

// With n elements that are rounded by different bits, the mean has a deviation of at most
// 1 / sqrt(n) of that of one, which is below half of its value: six of them are 5 %. Rounded to
// nearest, the moment stays where a change is less than half the distance to the neighbour.
TEST(NarrowState, FollowsASlowlyChangingGradient) {
  const Doubles exact = moments_of([](double v) { return v; });
  for (const DType dtype : kNarrow) {
    EXPECT_LT(largest_error(mean_moments_of_adam(dtype), exact), 0.05) << name_of(dtype);
  }
  const auto to_bf16 = [](double v) {
    return static_cast<double>(static_cast<float>(BFloat16(static_cast<float>(v))));
  };
  const auto to_e4m3 = [](double v) {
    const auto root = static_cast<float>(Float8E4M3(static_cast<float>(256 * std::sqrt(v))));
    return std::pow(root / 256, 2);
  };
  EXPECT_GT(largest_error(moments_of(to_bf16), exact), 0.3) << "nearest would do as well";
  EXPECT_GT(largest_error(moments_of(to_e4m3), exact), 0.3) << "nearest would do as well";
}

// Within a block, gradients differ by 10^9. Adam's true steps are at most 7.3 learning rates. Where
// a second moment had become zero, they would be a million.
TEST(NarrowState, MakesNoHugeSteps) {
  constexpr double kLr = 1e-3;
  for (const DType dtype : kNarrow) {
    const Tensor param = zeros({8192}).set_requires_grad(true);
    AdamW adam({param}, {.lr = kLr, .weight_decay = 0, .state_dtype = dtype});
    Generator generator(3);
    std::vector<float> before = param.to_vector<float>();
    for (int step = 0; step < 100; ++step) {
      const Tensor grad = randn({8192}, generator);
      float* data = grad.mutable_data<float>();
      for (std::int64_t i = 0; i < 8192; ++i) {
        data[i] *= static_cast<float>(std::pow(10.0, -static_cast<double>(i % 10)));
      }
      param.set_grad(grad);
      adam.step();
      const auto after = param.to_vector<float>();
      double largest = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(after[i]) - before[i]));
      }
      ASSERT_LT(largest, 8 * kLr) << name_of(dtype) << " step " << step;
      before = after;
    }
  }
}

double state_bytes(DType dtype) {
  std::vector<Tensor> params{parameter({512, 300}), parameter({512}), parameter({256, 512}),
                             parameter({256})};
  AdamW adam(params, {.state_dtype = dtype});
  for (const Tensor& param : params) param.set_grad(full(param.shape(), 1));
  adam.step();
  double bytes = 0;
  for (const NamedTensor& entry : adam.state()) bytes += static_cast<double>(entry.tensor.bytes());
  return bytes;
}

TEST(NarrowState, TakesAHalfAndAQuarterOfTheMemory) {
  const double f32 = state_bytes(DType::kF32);
  EXPECT_EQ(f32, 8 * (512 * 300 + 512 + 256 * 512 + 256));
  EXPECT_EQ(state_bytes(DType::kBf16), 0.5 * f32);
  EXPECT_LE(state_bytes(DType::kE4m3), 0.26 * f32);
}

TEST(NarrowState, OfSmallParametersIsF32InsteadOfE4m3) {
  for (const std::int64_t count : {std::int64_t{100}, kLeastStateInEightBits - 1}) {
    const Tensor param = parameter({count});
    AdamW adam({param}, {.state_dtype = DType::kE4m3});
    param.set_grad(gradient({count}, 0));
    adam.step();
    EXPECT_EQ(state_named(adam, "exp_avg.0").dtype(), DType::kF32);
    EXPECT_EQ(adam.state().size(), 2U);
  }
}

// Parameters whose elements are no multiple of a block or of a piece, and one that is small.
struct NarrowNet {
  explicit NarrowNet(const NarrowMaker& make, DType dtype)
      : params{parameter({3, 1711}), parameter({10}), parameter({9001})},
        optimizer((manual_seed(5), make(params, dtype))) {}

  void set_gradients(int step) const {
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].set_grad(gradient(params[i].shape(), step, static_cast<int>(i)));
    }
  }
  void step(int number) const {
    set_gradients(number);
    optimizer->step(0.5);
  }

  std::vector<Tensor> params;
  std::unique_ptr<Optimizer> optimizer;
};

TEST(NarrowState, HasTheSameBitsForAnyNumberOfThreads) {
  for (const DType dtype : kNarrow) {
    for (const NarrowMaker& make : narrow_makers()) {
      std::vector<std::vector<Doubles>> results;
      for (const int threads : {1, 2, 5}) {
        const test::Threads guard(threads);
        const NarrowNet net(make, dtype);
        for (int step = 0; step < 4; ++step) net.step(step);
        results.push_back(everything(*net.optimizer));
      }
      EXPECT_TRUE(results[1] == results[0]);
      EXPECT_TRUE(results[2] == results[0]);
    }
  }
}

TEST(NarrowState, HasTheSameBitsInParts) {
  for (const DType dtype : kNarrow) {
    for (const NarrowMaker& make : narrow_makers()) {
      const NarrowNet whole(make, dtype);
      const NarrowNet parted(make, dtype);
      ASSERT_TRUE(StepInParts::fits(*parted.optimizer));
      StepInParts parts({parted.optimizer.get()});
      for (int step = 0; step < 4; ++step) {
        whole.step(step);
        parted.set_gradients(step);
        parts.begin(0.5);
        for (const std::size_t i : {2U, 0U, 1U}) parts.step(std::vector<std::size_t>{i});
        parts.finish();
        ASSERT_TRUE(everything(*parted.optimizer) == everything(*whole.optimizer));
      }
    }
  }
}

void move_state(const NarrowNet& from, const NarrowNet& to) {
  for (std::size_t i = 0; i < from.params.size(); ++i) {
    copy_elements(from.params[i], to.params[i]);
  }
  for (const NamedTensor& state : from.optimizer->state()) {
    to.optimizer->set_state(state.name, state.tensor);
  }
  for (const NamedCounter& counter : from.optimizer->counters()) {
    to.optimizer->set_counter(counter.name, counter.value);
  }
}

TEST(NarrowState, ResumingIsContinuing) {
  for (const DType dtype : kNarrow) {
    for (const NarrowMaker& make : narrow_makers()) {
      const NarrowNet net(make, dtype);
      for (int step = 0; step < 3; ++step) net.step(step);
      const NarrowNet resumed(make, dtype);
      resumed.optimizer->set_counter("state_rounding.seed",
                                     77);  // another stream, until it is read
      move_state(net, resumed);
      for (int step = 3; step < 6; ++step) {
        net.step(step);
        resumed.step(step);
      }
      EXPECT_TRUE(everything(*resumed.optimizer) == everything(*net.optimizer));
    }
  }
}

// 16-bit parameters and channels-last ones take the same rules: the numbers of elements in the same
// order of memory have the same state.
TEST(NarrowState, GoesWithEveryKindOfParameter) {
  for (const DType dtype : kNarrow) {
    for (const ParamUpdate rule : {ParamUpdate::kMaster, ParamUpdate::kNearest,
                                   ParamUpdate::kStochastic, ParamUpdate::kKahan}) {
      const Tensor half = parameter({5000}).detach().astype(DType::kBf16).set_requires_grad(true);
      const Tensor full = half.detach().astype(DType::kF32).set_requires_grad(true);
      manual_seed(1);
      Sgd halves({half}, {.momentum = 0.9, .param_update = rule, .state_dtype = dtype});
      manual_seed(1);
      Sgd fulls({full}, {.momentum = 0.9, .state_dtype = dtype});
      if (rule == ParamUpdate::kStochastic) {  // whose seed is drawn first
        for (const NamedCounter& counter : halves.counters()) {
          if (counter.name == "state_rounding.seed") fulls.set_counter(counter.name, counter.value);
        }
      }
      for (int step = 0; step < 3; ++step) {
        half.set_grad(gradient({5000}, step).astype(DType::kBf16));
        full.set_grad(half.grad().astype(DType::kF32));
        halves.step();
        fulls.step();
        EXPECT_EQ(state_named(halves, "momentum.0").to_vector<float>(),
                  state_named(fulls, "momentum.0").to_vector<float>());
      }
    }
  }
}

TEST(NarrowState, IsKeptAndRefusedByItsLayout) {
  const Shape shape{16, 32, 3, 3};
  const Tensor last = zeros(shape, DType::kF32, Format::kChannelsLast).set_requires_grad(true);
  const Tensor first = parameter(shape);
  AdamW from({last}, {.state_dtype = DType::kE4m3});
  AdamW to({first}, {.state_dtype = DType::kE4m3});
  last.set_grad(gradient(shape, 1));
  from.step();
  const Tensor scales = state_named(from, "exp_avg_scale.0");
  EXPECT_EQ(scales.shape(), (Shape{18, 1}));
  EXPECT_THAT(message_of<ArgumentError>([&] { to.set_state("exp_avg_scale.0", scales); }),
              HasSubstr("in the same memory format"));
}

TEST(NarrowState, OfAnotherDTypeIsRefused) {
  const Tensor param = parameter({5000});
  const auto message = [&](DType saved, DType wanted) {
    AdamW from({param}, {.state_dtype = saved});
    AdamW to({param}, {.state_dtype = wanted});
    param.set_grad(gradient({5000}, 0));
    from.step();
    return message_of<ArgumentError>([&] {
      for (const NamedTensor& entry : from.state()) to.set_state(entry.name, entry.tensor);
    });
  };
  EXPECT_EQ(message(DType::kF32, DType::kE4m3),
            "[AdamW] the state `exp_avg.0` was kept in f32, this optimizer keeps it in e4m3. Make "
            "the optimizer with state_dtype f32 (--optimizer-state f32), or begin anew");
  EXPECT_THAT(message(DType::kBf16, DType::kF32), HasSubstr("was kept in bf16, this optimizer"));
  EXPECT_THAT(message(DType::kE4m3, DType::kBf16), HasSubstr("was kept in e4m3, this optimizer"));
}

TEST(NarrowState, NeedsScalesAndASeed) {
  const Tensor param = parameter({5000});
  AdamW adam({param}, {.state_dtype = DType::kE4m3});
  adam.set_state("exp_avg.0", zeros({5000}, DType::kE4m3));
  param.set_grad(gradient({5000}, 0));
  EXPECT_THAT(message_of<ArgumentError>([&] { adam.step(); }),
              HasSubstr("only one of the two that e4m3 needs, numbers and scales. Set both"));
  AdamW plain({param}, {});
  EXPECT_THAT(message_of<ArgumentError>([&] { plain.set_counter("state_rounding.seed", 1); }),
              HasSubstr("its state is f32"));
  EXPECT_THAT(message_of<ArgumentError>([&] { plain.set_state("exp_avg_scale.0", zeros({20})); }),
              HasSubstr("belongs to e4m3, parameter 0 keeps its state in f32"));
}

TEST(NarrowState, IsRefusedWhereItCannotBe) {
  const auto message = [](const auto& make) { return message_of<ArgumentError>(make); };
  EXPECT_THAT(
      message([] { AdamW({parameter({3})}, {.state_dtype = DType::kF16}); }),
      HasSubstr("state_dtype is f16, which state cannot be kept in. Use f32, bf16 or e4m3"));
  EXPECT_THAT(
      message([] { RmsProp({parameter({3})}, {.centered = true, .state_dtype = DType::kBf16}); }),
      HasSubstr("the variance of centered averages would be lost in bf16"));
}

}  // namespace
}  // namespace mezzo::optim
