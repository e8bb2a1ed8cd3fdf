#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "mezzo/core/parallel.h"
#include "mezzo/ops/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/train/profile.h"

namespace mezzo::train {
namespace {

// Seconds of the fastest of several runs, the first of which prepares.
template <class Body>
double fastest(Body&& body) {
  constexpr int kRuns = 6;
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (run > 0) best = std::min(best, elapsed.count());
  }
  return best;
}

double product_rate(DType dtype) {
  constexpr std::int64_t kSize = 1024;  // 2 to 4 MB an operand: the products outweigh everything
  const Tensor a = full({kSize, kSize}, 0.5, dtype);
  const Tensor b = full({kSize, kSize}, 0.25, dtype);
  const double seconds = fastest([&] { matmul(a, b); });
  return 2.0 * kSize * kSize * kSize / seconds;
}

double copy_rate() {
  constexpr std::int64_t kBytes = 128 << 20;
  constexpr std::int64_t kGrain = 1 << 20;
  const Tensor from = zeros({kBytes}, DType::kU8);
  const Tensor to = zeros({kBytes}, DType::kU8);
  const auto* source = static_cast<const char*>(from.raw_data());
  auto* target = static_cast<char*>(to.mutable_raw_data());
  const double seconds = fastest([&] {
    parallel_for(kBytes, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
    });
  });
  return 2.0 * kBytes / seconds;
}

}  // namespace

MachineRates measure_machine_rates() {
  const NoGrad no_grad;
  return {product_rate(DType::kF32), product_rate(DType::kBf16), copy_rate()};
}

}  // namespace mezzo::train
