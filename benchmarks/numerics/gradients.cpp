// Micikevicius et al., "Mixed precision training", ICLR 2018, figure 3: values below 2^-24 are lost
// in f16.
#include <algorithm>
#include <cmath>

#include "benchmarks/numerics/experiments.h"
#include "benchmarks/numerics/training.h"

namespace numerics {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

namespace {

constexpr double kSmallestF16 = 0x1p-24;
constexpr double kScale = 65536;     // the start of dynamic scaling
constexpr std::int64_t kEvery = 20;  // steps between samples

struct Counts {
  double all = 0;
  double zero = 0;
  double below = 0;         // non-zero values below f16's smallest value
  double below_scaled = 0;  // those still below it after scaling
  double largest = 0;

  void add(double gradient) {
    const double size = std::abs(gradient);
    all += 1;
    zero += size == 0 ? 1 : 0;
    below += size > 0 && size < kSmallestF16 ? 1 : 0;
    below_scaled += size > 0 && size * kScale < kSmallestF16 ? 1 : 0;
    largest = std::max(largest, size);
  }
  double of_nonzero(double count) const { return 100 * count / (all - zero); }
};

// The gradients of the loss with respect to each layer's output, in f32.
void count_gradients(Cnn& net, const data::Batch& batch, Counts& counts) {
  const std::vector<Tensor> layers = net.layers(batch.images);
  const Tensor loss = cross_entropy(layers.back(), batch.labels);
  for (const Tensor& gradient : grad({&loss, 1}, layers)) {
    for (const double value : gradient.to_vector<double>()) counts.add(value);
  }
}

}  // namespace

void run_gradients(const train::DataPair& data, Table& table) {
  const char* name = "2 gradients";
  const auto net = make<Cnn>(data, 1);
  Counts counts;
  train(*net, *data.train, {.epochs = 2}, [&](std::int64_t step, const data::Batch& batch) {
    if (step % kEvery == 0) count_gradients(*net, batch, counts);
  });
  table.add(between(name, "activation gradients that are 0", 100 * counts.zero / counts.all,
                    {65, 90}, "%"));
  table.add(
      between(name, "of the others, below 2^-24", counts.of_nonzero(counts.below), {8, 16}, "%"));
  table.add(
      at_most(name, "the same at scale 2^16", counts.of_nonzero(counts.below_scaled), 0.1, "%"));
  table.add(
      at_most(name, "the largest gradient at scale 2^16", counts.largest * kScale, 65504, ""));
}

}  // namespace numerics
