// The cost of odd shapes: a convolution, batch norm and linear layer, forward and backward, with
// odd sizes compared with round ones, per element of work. A ratio of 1 means that odd sizes cost
// nothing extra.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"

namespace mezzo {
namespace {

struct Case {
  const char* name;
  std::int64_t batch;
  std::int64_t in;
  std::int64_t out;
  Size2d image;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;

  // The approximate number of multiply-adds in the forward pass.
  double work() const {
    return static_cast<double>(batch * in * out * image.h * image.w * kernel * kernel) /
           static_cast<double>(stride * stride);
  }
};

struct Pair {
  Case round;
  Case odd;
};

const std::vector<Pair> kPairs{
    {{"3x3", 16, 64, 64, {32, 48}}, {"3x3 odd", 17, 67, 61, {33, 47}}},
    {{"3x3 few channels", 16, 16, 16, {32, 48}}, {"3x3 few channels odd", 17, 19, 13, {33, 47}}},
    {{"3x3 stride 2", 16, 64, 128, {32, 48}, 3, 2},
     {"3x3 stride 2 odd", 17, 67, 127, {33, 47}, 3, 2}},
    {{"1x1", 16, 256, 64, {32, 48}, 1}, {"1x1 odd", 17, 259, 61, {33, 47}, 1}},
    {{"1x1 stride 2", 16, 128, 256, {32, 48}, 1, 2},
     {"1x1 stride 2 odd", 17, 131, 251, {33, 47}, 1, 2}},
    {{"3x3 batch 1", 1, 64, 64, {32, 48}}, {"3x3 batch 1 odd", 1, 67, 61, {33, 47}}},
    {{"5x5", 16, 32, 32, {32, 48}, 5}, {"5x5 odd", 17, 29, 35, {33, 47}, 5}},
};

// The median time in seconds of a forward and backward pass of convolution, batch norm and ReLU.
double seconds_of(const Case& c, DType dtype, int repeats) {
  manual_seed(1);
  const std::int64_t pad = c.kernel / 2;
  nn::Conv2d conv(c.in, c.out, c.kernel, {.stride = c.stride, .padding = pad, .bias = false});
  nn::BatchNorm2d norm(c.out);
  Tensor x = to_format(randn({c.batch, c.in, c.image.h, c.image.w}), Format::kChannelsLast)
                 .astype(dtype)
                 .detach();
  x.set_requires_grad(true);
  const Tensor weight = conv.parameters()[0];
  const Conv2dOptions options{.stride = c.stride, .padding = pad};
  Tensor grad;
  std::vector<double> times;
  for (int i = 0; i < repeats + 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor y = norm.forward_relu(conv2d(x, weight.astype(dtype), {}, options));
    if (!grad.defined()) grad = to_format(randn(y.shape()), Format::kChannelsLast).astype(dtype);
    y.backward(grad);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    x.clear_grad();
    conv.zero_grad();
    norm.zero_grad();
    if (i >= 2) times.push_back(elapsed.count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

void print_rows(const Pair& pair, int repeats) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const double round = seconds_of(pair.round, dtype, repeats);
    const double odd = seconds_of(pair.odd, dtype, repeats);
    const double ratio = odd / pair.odd.work() / (round / pair.round.work());
    std::printf("%-20s %-5s %12.3f %12.3f %8.2f\n", pair.round.name, name_of(dtype), 1000 * round,
                1000 * odd, ratio);
  }
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  int threads = 0;
  int repeats = 15;
  CLI::App app("The cost of odd shapes compared with round ones");
  app.add_option("--threads", threads, "Threads to use (all cores)");
  app.add_option("--repeats", repeats, "Timed passes")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (threads > 0) mezzo::set_num_threads(threads);
  std::printf("%-20s %-5s %12s %12s %8s\n", "layer", "dtype", "round, ms", "odd, ms", "per work");
  for (const mezzo::Pair& pair : mezzo::kPairs) mezzo::print_rows(pair, repeats);
  return 0;
}
