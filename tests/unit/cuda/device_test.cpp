// Tests tensors on a CUDA device: memory, copies, errors, and results that must equal the CPU's bit
// by bit.
#include <cmath>
#include <limits>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/batch_norm_grad.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dropout.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::HasSubstr;

class CudaDevice : public OnCard<> {};

TEST_F(CudaDevice, ElementsComeBackAsTheyWent) {
  const Tensor x = randn({3, 5, 7, 2});
  EXPECT_EQ(floats(x.to(kCard)), floats(x));
  EXPECT_EQ(floats(to_format(x, Format::kChannelsLast).to(kCard)), floats(x));
  EXPECT_EQ(floats(to_format(x.to(kCard), Format::kChannelsLast)), floats(x));
  EXPECT_EQ(floats(permute(x, {3, 1, 0, 2}).to(kCard)), floats(permute(x, {3, 1, 0, 2})));
  EXPECT_EQ(full({}, 3.5).to(kCard).item(), 3.5);
  EXPECT_EQ(floats(zeros({4}, DType::kF16, Format::kContiguous, kCard)), floats(zeros({4})));
  EXPECT_EQ(full({3}, 7, DType::kI64, Format::kContiguous, kCard).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{7, 7, 7}));
}

TEST_F(CudaDevice, PinnedMemoryIsCopiedWhileTheHostGoesOn) {
  const Tensor pinned = empty_pinned({1 << 20});
  fill(pinned, 2);
  const Tensor x = pinned.to(kCard);
  synchronize(kCard);
  EXPECT_EQ(floats(x), floats(full({1 << 20}, 2)));
}

TEST_F(CudaDevice, TheHostCannotReadElementsUnasked) {
  const Tensor x = zeros({2}).to(kCard);
  EXPECT_THAT(message_of<ArgumentError>([&] { x.data<float>(); }),
              HasSubstr("the elements are on cuda"));
}

TEST_F(CudaDevice, InputsOnDifferentDevicesAreAnError) {
  const Tensor x = zeros({2});
  EXPECT_THAT(message_of<ArgumentError>([&] { x + x.to(kCard); }),
              HasSubstr("[add] inputs are on different devices"));
}

TEST_F(CudaDevice, CountsItsMemory) {
  const std::int64_t before = memory_stats(kCard).live_bytes;
  {
    const Tensor x = empty({1024}, DType::kF32, Format::kContiguous, kCard);
    EXPECT_EQ(memory_stats(kCard).live_bytes, before + 4096);
  }
  EXPECT_EQ(memory_stats(kCard).live_bytes, before);
  const std::string message =
      message_of<DeviceError>([] { empty({1LL << 42}, DType::kF32, Format::kContiguous, kCard); });
  EXPECT_THAT(message, HasSubstr("out of memory on cuda"));
}

TEST_F(CudaDevice, LabelsOutOfRangeAreReportedAtTheNextWait) {
  const Tensor labels = from_values<std::int64_t>({0, 5}, {2}).to(kCard);
  const Tensor loss = cross_entropy(zeros({2, 3}).to(kCard), labels);
  EXPECT_THAT(message_of<ArgumentError>([&] { loss.item(); }), HasSubstr("label 1 is 5"));
  EXPECT_NO_THROW(zeros({1}).to(kCard).item()) << "it is reported once";
}

TEST_F(CudaDevice, DropoutDropsWhatItDropsOnTheCpu) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const std::int64_t n : {1, 3, 4, 1021, 70000}) {
      const Tensor x = ones({n}, dtype);
      manual_seed(7);
      const std::vector<float> expected = floats(dropout(x, 0.3));
      manual_seed(7);
      EXPECT_EQ(floats(dropout(x.to(kCard), 0.3)), expected) << n;
    }
  }
}

TEST_F(CudaDevice, CastsRoundAsOnTheCpu) {
  Generator generator(3);
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) {
    const float value = std::bit_cast<float>(generator.next());
    values.push_back(std::isnan(value) ? 0.0F : value);
  }
  const Tensor x = from_values(values, {100000});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    EXPECT_EQ(floats(x.to(kCard).astype(dtype)), floats(x.astype(dtype))) << name_of(dtype);
  }
}

// Divided, not multiplied by the reciprocal; 1e-42 and 1e50 are beyond f32.
TEST_F(CudaDevice, QuotientsByNumbersAreThoseOfTheCpu) {
  const Tensor x = randn({1000});
  for (const double divisor : {3.0, -10.0, 0.1, 0.0, 1e-42, 1e50}) {
    for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
      const Tensor narrow = x.astype(dtype);
      EXPECT_EQ(floats(narrow.to(kCard) / divisor), floats(narrow / divisor)) << divisor;
    }
  }
}

// The same elements in another dtype, converted on the device.
std::vector<double> copied_on(Device device, const Tensor& host, DType dtype) {
  const Tensor source = host.to(device);
  const Tensor copy = empty(source.shape(), dtype, Format::kContiguous, device);
  copy_elements(source, copy);
  return copy.to(kCpuDevice).astype(DType::kF64).to_vector<double>();
}

// Values that are ties of 16-bit values only after rounding to f32, integers with more bits than
// f64 has, and values that integers cannot hold.
TEST_F(CudaDevice, CopiesConvertAsOnTheCpu) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers{1 + 0x1p-8 + 0x1p-40,
                                    -1 - 0x1p-8 - 0x1p-40,
                                    1 + 0x1p-11 + 0x1p-40,
                                    65519.9999999,
                                    0x1p-25 + 0x1p-60,
                                    -3.7,
                                    300.5,
                                    -5e9,
                                    1e19,
                                    -1e300,
                                    infinity,
                                    -infinity,
                                    std::nan("")};
  const std::vector<std::int64_t> integers{(1LL << 40) + (1LL << 32) + 1,
                                           (1LL << 60) + (1LL << 52) + 1, -4097, 300,
                                           std::numeric_limits<std::int64_t>::max()};
  const Tensor f64 = from_values(numbers, {std::ssize(numbers)});
  std::vector<Tensor> sources{from_values(integers, {std::ssize(integers)})};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16}) {
    sources.push_back(f64.astype(dtype));
  }
  for (const Tensor& source : sources) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16, DType::kI64,
                              DType::kI32, DType::kU8, DType::kBool}) {
      EXPECT_THAT(
          copied_on(kCard, source, dtype),
          testing::Pointwise(testing::NanSensitiveDoubleEq(), copied_on(kCpuDevice, source, dtype)))
          << name_of(source.dtype()) << " to " << name_of(dtype);
    }
  }
}

// Two threads compute with one network: neither has to wait for copies of weights that the other
// makes.
TEST_F(CudaDevice, CopiesOfParametersAreEachThreadsOwn) {
  const Tensor host = randn({8, 8, 3, 3});
  const Tensor images = randn({2, 8, 5, 5}).astype(DType::kBf16);
  Tensor param = host.to(kCard);
  param.set_requires_grad(true);
  synchronize(kCard);
  const auto convolved = [&] { return conv2d(images.to(kCard), cast(param, DType::kBf16)); };
  const NoGrad guard;
  const Tensor here = convolved();
  const Tensor plain = cast(param, DType::kBf16) + 1.0;
  std::vector<float> of_plain;
  std::vector<float> of_convolved;
  std::thread([&] {
    const NoGrad also;
    of_plain = floats(cast(param, DType::kBf16) + 1.0);
    of_convolved = floats(convolved());
  }).join();
  EXPECT_EQ(of_plain, floats(plain));
  EXPECT_EQ(of_convolved, floats(here));
}

// The square of such a mean is infinite.
TEST_F(CudaDevice, ChannelsOfHugeNumbersHaveAVariance) {
  const BatchNormResult found = batch_norm(full({3, 2, 3, 3}, 2e19).to(kCard), {}, {});
  EXPECT_EQ(found.var.to_vector<float>(), (std::vector<float>{0, 0}));
}

// Outside of training, an element's gradient depends only on its own inputs, not on infinite ones.
TEST_F(CudaDevice, AnInfiniteGradientOfAFrozenNormStaysAlone) {
  const Tensor x = randn({2, 3, 4, 4});
  Tensor grad = randn(x.shape());
  grad.mutable_data<float>()[5] = std::numeric_limits<float>::infinity();
  x.mutable_data<float>()[7] = std::numeric_limits<float>::infinity();
  const BatchNormSaved saved{
      .x = x.to(kCard), .mean = zeros({3}).to(kCard), .var = full({3}, 1).to(kCard)};
  const std::vector<float> found =
      floats(batch_norm_grad(grad.to(kCard), saved, {.training = false}).x);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isfinite(found[i]), i != 5) << i;
}

std::vector<bool> are_finite(const Tensor& tensor) {
  std::vector<bool> finite;
  for (const float value : floats(tensor)) finite.push_back(std::isfinite(value));
  return finite;
}

// Kernels for few channels read memory beside a window, and beyond the last pixel of a row.
TEST_F(CudaDevice, AnInfinitePixelReachesOnlyTheWindowsOverIt) {
  const Tensor weight = randn({8, 3, 3, 3});
  const Tensor grad = randn({1, 8, 3, 68});
  const OpDef& grad_weight = *find_op("conv2d_grad_weight");
  const Conv2dGradAttrs attrs{.size = {3, 3}, .f32_result = true};
  for (const std::int64_t column : {40, 69}) {
    const Tensor x = randn({1, 3, 5, 70});
    x.mutable_data<float>()[(5 + 2) * 70 + column] = std::numeric_limits<float>::infinity();
    for (const DType dtype : {DType::kF16, DType::kBf16}) {
      const Tensor x16 = x.astype(dtype);
      const Tensor weight16 = weight.astype(dtype);
      const Tensor grad16 = grad.astype(dtype);
      const Tensor x_card = x16.to(kCard);
      const Tensor grad_card = grad16.to(kCard);
      EXPECT_EQ(are_finite(conv2d(x_card, weight16.to(kCard), {}, {.padding = 1})),
                are_finite(conv2d(x16, weight16, {}, {.padding = 1})));
      EXPECT_EQ(are_finite(call_one(grad_weight, {&grad_card, &x_card}, attrs)),
                are_finite(call_one(grad_weight, {&grad16, &x16}, attrs)));
    }
  }
}

}  // namespace
}  // namespace mezzo
