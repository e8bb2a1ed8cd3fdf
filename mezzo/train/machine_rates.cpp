#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/train/profile.h"

namespace mezzo::train {
namespace {

// The time in seconds of the fastest of several runs; the first one is a warm-up.
template <class Body>
double fastest(Device device, Body&& body) {
  constexpr int kRuns = 6;
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    if (!device.is_cpu()) synchronize(device);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (run > 0) best = std::min(best, elapsed.count());
  }
  return best;
}

// A square matrix of random values. Multiplying constants takes less power, and a GPU, whose clock
// falls under high power, would be faster at it than at anything that a network computes. The host
// draws some rows, which are repeated.
Tensor random_square(std::int64_t size, DType dtype, Device device) {
  constexpr std::int64_t kRows = 64;
  Generator generator(1);
  const Tensor rows = cast(randn({kRows, size}, generator), dtype).to(device);
  const Tensor square = zeros({size / kRows, kRows, size}, dtype, Format::kContiguous, device);
  return reshape(square + rows, {size, size});
}

// The matrices are large enough for the products to dominate.
double product_rate(DType dtype, Device device) {
  const std::int64_t size = device.is_cpu() ? 1024 : 8192;
  const Tensor a = random_square(size, dtype, device);
  const Tensor b = random_square(size, dtype, device);
  const double seconds = fastest(device, [&] { matmul(a, b); });
  const auto n = static_cast<double>(size);
  return 2 * n * n * n / seconds;
}

void copy_on_cpu(const Tensor& from, const Tensor& to) {
  constexpr std::int64_t kGrain = 1 << 20;
  const auto* source = static_cast<const char*>(from.raw_data());
  auto* target = static_cast<char*>(to.mutable_raw_data());
  parallel_for(from.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

double copy_rate(Device device) {
  const std::int64_t bytes = device.is_cpu() ? 128 << 20 : 1 << 30;
  const Tensor from = zeros({bytes}, DType::kU8, Format::kContiguous, device);
  const Tensor to = zeros({bytes}, DType::kU8, Format::kContiguous, device);
  const double seconds = fastest(device, [&] {
    if (device.is_cpu()) return copy_on_cpu(from, to);
    copy_bytes(to.address(), device, from.address(), device, from.bytes());
  });
  return 2 * static_cast<double>(bytes) / seconds;
}

}  // namespace

MachineRates measure_machine_rates(Device device) {
  const NoGrad no_grad;
  return {.flops_f32 = product_rate(DType::kF32, device),
          .flops_bf16 = product_rate(DType::kBf16, device),
          .bytes = copy_rate(device),
          .flops_f16 = device.is_cpu() ? 0 : product_rate(DType::kF16, device),
          .device = device};
}

}  // namespace mezzo::train
