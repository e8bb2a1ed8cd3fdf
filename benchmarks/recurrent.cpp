// Training passes of recurrent layers: LSTM and GRU of 2 layers of 512 units over 128 steps of 32
// sequences, forward and backward, in f32 and under autocast to bf16. Beside them stands the same
// layer step by step, in elementary operations, as one would write it by hand.
// benchmarks/recurrent.py times PyTorch's.
#include "mezzo/nn/recurrent.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

struct Sizes {
  std::int64_t layers = 2;
  std::int64_t hidden = 512;
  std::int64_t steps = 128;
  std::int64_t batch = 32;
  int repeats = 5;
};

// The multiplications and additions of a training pass: three products of the size of the forward
// pass's, for the layers' inputs and for their states.
double flops(const Sizes& s, std::int64_t gates) {
  const auto product = static_cast<double>(2 * gates * s.hidden * s.hidden);
  return 3 * 2 * product * static_cast<double>(s.layers * s.steps * s.batch);
}

struct Timed {
  double seconds;      // the median
  std::int64_t bytes;  // the peak of tensors
};

Timed measure(nn::Recurrent& net, const Sizes& s, DType dtype) {
  Tensor x = randn({s.batch, s.steps, s.hidden});
  x.set_requires_grad(true);
  const Tensor grad = randn({s.batch, s.steps, s.hidden});
  std::vector<double> times;
  Timed timed{};
  for (int i = 0; i < s.repeats + 1; ++i) {
    cpu_allocator().reset_peak();
    const auto start = std::chrono::steady_clock::now();
    {
      std::optional<amp::Autocast> region;
      if (dtype != DType::kF32) region.emplace(dtype);
      net(x).backward(grad.astype(dtype));
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    timed.bytes = std::max(timed.bytes, cpu_allocator().stats().peak_bytes);
    x.clear_grad();
    net.zero_grad();
    if (i >= 1) times.push_back(elapsed.count());  // the first pass allocates
  }
  const auto middle = times.begin() + s.repeats / 2;
  std::nth_element(times.begin(), middle, times.end());
  timed.seconds = *middle;
  return timed;
}

void print_row(const char* name, nn::Recurrent& net, const Sizes& s, std::int64_t gates,
               DType dtype) {
  const Timed timed = measure(net, s, dtype);
  std::printf("%-20s %-5s %10.1f %10.1f %10.1f\n", name, name_of(dtype), 1000 * timed.seconds,
              flops(s, gates) / timed.seconds / 1e9, static_cast<double>(timed.bytes) / (1 << 20));
}

void print_rows(const Sizes& s) {
  manual_seed(1);
  nn::Lstm lstm(s.hidden, s.hidden, {.layers = s.layers});
  nn::Gru gru(s.hidden, s.hidden, {.layers = s.layers});
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    print_row("lstm", lstm, s, 4, dtype);
    print_row("gru", gru, s, 3, dtype);
    const StepByStep elementary;
    print_row("lstm, step by step", lstm, s, 4, dtype);
    print_row("gru, step by step", gru, s, 3, dtype);
  }
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  int threads = 0;
  mezzo::Sizes sizes;
  CLI::App app("Training passes of recurrent layers");
  app.add_option("--threads", threads, "Threads to use (all cores)");
  app.add_option("--layers", sizes.layers, "Layers")->capture_default_str();
  app.add_option("--hidden", sizes.hidden, "Units of a layer")->capture_default_str();
  app.add_option("--steps", sizes.steps, "Steps of a sequence")->capture_default_str();
  app.add_option("--batch-size", sizes.batch, "Sequences")->capture_default_str();
  app.add_option("--repeats", sizes.repeats, "Timed passes")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) mezzo::set_num_threads(threads);
  std::printf("%-20s %-5s %10s %10s %10s\n", "layers", "dtype", "ms", "GFLOP/s", "MiB");
  mezzo::print_rows(sizes);
  return 0;
}
