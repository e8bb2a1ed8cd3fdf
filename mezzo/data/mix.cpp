#include "mezzo/data/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/draw.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

// Uniform in (0, 1), since the logarithm of 0 is infinite.
double open_uniform(Generator& random) {
  return (static_cast<double>(random.next()) + 0.5) * 0x1p-32;
}

double normal(Generator& random) {
  const double radius = std::sqrt(-2 * std::log(open_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * open_uniform(random));
}

// The logarithm of a Gamma(a) variate for a >= 1: Marsaglia and Tsang, "A simple method for
// generating gamma variables", 2000.
double draw_log_gamma(double a, Generator& random) {
  const double d = a - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double bound = x * x / 2 + d - d * v + d * std::log(v);
    if (std::log(open_uniform(random)) < bound) return std::log(d * v);
  }
}

// Uses logarithms, because a Gamma(a) variate with a small a often underflows in any floating-point
// format; 0 / 0 would result.
double draw_log_gamma_of_any(double a, Generator& random) {
  if (a >= 1) return draw_log_gamma(a, random);
  const double log_larger = draw_log_gamma(a + 1, random);
  return log_larger + std::log(open_uniform(random)) / a;
}

// Mixes two elements. Computed in f32 and rounded once: 16-bit arithmetic would round lambda, the
// products and the sum.
template <class T>
T mixed(T mine, T other, float lambda) {
  return T(lambda * static_cast<float>(mine) + (1 - lambda) * static_cast<float>(other));
}

// Image i of `rows` dense images becomes change(image i, image i - 1 as it was).
template <class T, class Change>
void for_each_pair(T* images, std::int64_t rows, std::int64_t elements, const Change& change) {
  const std::vector<T> last(images + (rows - 1) * elements, images + rows * elements);
  for (std::int64_t i = rows - 1; i >= 0; --i) {
    change(images + i * elements, i > 0 ? images + (i - 1) * elements : last.data());
  }
}

template <class T>
void mix_rows(T* rows, std::int64_t count, std::int64_t elements, float lambda) {
  for_each_pair(rows, count, elements, [&](T* mine, const T* other) {
    for (std::int64_t k = 0; k < elements; ++k) mine[k] = mixed(mine[k], other[k], lambda);
  });
}

struct Cut {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// As in torchvision's CutMix: half of each side lies on either side of a uniform centre.
Cut draw_cut(double lambda, std::int64_t height, std::int64_t width, Generator& random) {
  const double half = 0.5 * std::sqrt(1 - lambda);
  const std::int64_t x = below(random, width);
  const std::int64_t y = below(random, height);
  const auto rows = static_cast<std::int64_t>(half * static_cast<double>(height));
  const auto columns = static_cast<std::int64_t>(half * static_cast<double>(width));
  return {.top = std::max<std::int64_t>(y - rows, 0),
          .bottom = std::min(y + rows, height),
          .left = std::max<std::int64_t>(x - columns, 0),
          .right = std::min(x + columns, width)};
}

template <class T>
void cut_rows(T* images, const Shape& shape, const Cut& cut) {
  const std::int64_t channels = shape[1];
  const std::int64_t row = shape[3] * channels;
  for_each_pair(images, shape[0], shape[2] * row, [&](T* mine, const T* other) {
    for (std::int64_t y = cut.top; y < cut.bottom; ++y) {
      std::copy(other + y * row + cut.left * channels, other + y * row + cut.right * channels,
                mine + y * row + cut.left * channels);
    }
  });
}

template <class Work>
void with_elements(const Tensor& images, const Work& work) {
  const auto on = [&]<class T>() { work(images.mutable_data<T>()); };
  images.dtype() == DType::kF32 ? on.template operator()<float>()
                                : visit_lower_dtype(images.dtype(), on);
}

}  // namespace

double draw_beta(double a, Generator& random) {
  const double first = draw_log_gamma_of_any(a, random);
  const double second = draw_log_gamma_of_any(a, random);
  return 1 / (1 + std::exp(second - first));
}

void check_mix(const Mix& mix) {
  for (const double number : {mix.mixup, mix.cutmix}) {
    check_arg(number >= 0 && std::isfinite(number), "mix",
              "mixup and cutmix must be at least 0 and finite: ", number);
  }
}

void mix_batch(const Mix& mix, std::uint64_t seed, LoaderPosition at, const Shard& shard,
               Batch& batch) {
  // Mix streams start at a number that no image has, and count the batches of all shards.
  constexpr std::uint64_t kMixStreams = std::uint64_t{1} << 63;
  const auto number = static_cast<std::uint64_t>(at.step * shard.count + shard.index);
  Generator random = stream_of(seed, static_cast<std::uint64_t>(at.epoch), kMixStreams + number);
  const bool both = mix.mixup > 0 && mix.cutmix > 0;
  const bool cuts = both ? happens(random, 0.5) : mix.cutmix > 0;
  double lambda = draw_beta(cuts ? mix.cutmix : mix.mixup, random);
  const Shape& shape = batch.images.shape();
  if (cuts) {
    const Cut cut = draw_cut(lambda, shape[2], shape[3], random);
    with_elements(batch.images, [&](auto* elements) { cut_rows(elements, shape, cut); });
    const auto area = static_cast<double>((cut.bottom - cut.top) * (cut.right - cut.left));
    lambda = 1 - area / static_cast<double>(shape[2] * shape[3]);
  } else {
    with_elements(batch.images, [&](auto* elements) {
      mix_rows(elements, shape[0], shape.numel() / shape[0], static_cast<float>(lambda));
    });
  }
  mix_rows(batch.labels.mutable_data<float>(), batch.labels.size(0), batch.labels.size(1),
           static_cast<float>(lambda));
}

}  // namespace mezzo::data
