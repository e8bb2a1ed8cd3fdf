#include "mezzo/tune/gradient_error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/cast.h"

namespace mezzo::tune {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kSumBlock = 1 << 14;  // elements of a partial sum

// Sums over elements, in f64: f32 would lose the small differences beside the large norms.
struct ErrorSums {
  double exact = 0;     // squares of the exact elements
  double found = 0;     // of the others
  double distance = 0;  // of the differences
  double product = 0;
  std::int64_t lost = 0;
  std::int64_t nonzero = 0;
  std::int64_t not_finite = 0;
  std::int64_t count = 0;

  void add(double a, double b) {
    ++count;
    if (!std::isfinite(b)) {
      ++not_finite;
      return;
    }
    nonzero += a != 0 ? 1 : 0;
    lost += a != 0 && b == 0 ? 1 : 0;
    exact += a * a;
    found += b * b;
    distance += (b - a) * (b - a);
    product += a * b;
  }

  void add(const ErrorSums& other) {
    exact += other.exact;
    found += other.found;
    distance += other.distance;
    product += other.product;
    lost += other.lost;
    nonzero += other.nonzero;
    not_finite += other.not_finite;
    count += other.count;
  }

  double error() const {
    if (not_finite > 0) return kInfinite;
    if (distance == 0) return 0;
    return exact > 0 ? std::sqrt(distance / exact) : kInfinite;
  }
};

template <class A>
ErrorSums sums_of_elements(const A* exact, const float* found, std::int64_t n, double factor) {
  const std::int64_t blocks = (n + kSumBlock - 1) / kSumBlock;
  std::vector<ErrorSums> sums(static_cast<std::size_t>(blocks));
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      ErrorSums own;
      const std::int64_t stop = std::min(n, (block + 1) * kSumBlock);
      for (std::int64_t i = block * kSumBlock; i < stop; ++i) {
        own.add(static_cast<double>(exact[i]), factor * static_cast<double>(found[i]));
      }
      sums[static_cast<std::size_t>(block)] = own;
    }
  });
  ErrorSums all;
  for (const ErrorSums& own : sums) all.add(own);
  return all;
}

ErrorSums error_sums(const Tensor& exact, const Tensor& found, double scale) {
  const bool is_plain = found.dtype() == DType::kF32 && found.device().is_cpu() && found.is_dense();
  const Tensor plain = is_plain ? found : plain_copy(found, 1);
  const float* elements = plain.data<float>();
  if (exact.dtype() == DType::kF64) {
    return sums_of_elements(exact.data<double>(), elements, exact.numel(), 1 / scale);
  }
  return sums_of_elements(exact.data<float>(), elements, exact.numel(), 1 / scale);
}

double share(std::int64_t part, std::int64_t of) {
  return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
}

double loss_error(double exact, double found) {
  if (!std::isfinite(found)) return kInfinite;
  if (exact == found) return 0;
  return exact != 0 ? std::abs(found - exact) / std::abs(exact) : kInfinite;
}

}  // namespace

bool GradientError::is_finite() const {
  return not_finite == 0 && std::isfinite(total) && std::isfinite(loss);
}

GradientError error_of(const StepGradients& exact, std::span<const NamedTensor> gradients,
                       double loss, double scale, const std::vector<bool>& left_out) {
  check_arg(gradients.size() == exact.tensors.size(), "tune", "a step has ", gradients.size(),
            " gradients, and the exact one ", exact.tensors.size(),
            ". A step must train the same parameters whatever its dtypes");
  GradientError error{.loss = loss_error(exact.loss, loss), .scale = scale};
  ErrorSums all;
  double squares = 0;
  std::int64_t counted = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const NamedTensor& gradient = gradients[i];
    check_arg(gradient.name == exact.tensors[i].name, "tune", "a step has a gradient of `",
              gradient.name, "` where the exact one has that of `", exact.tensors[i].name, "`");
    const ErrorSums sums = error_sums(exact.tensors[i].tensor, gradient.tensor, scale);
    all.add(sums);
    if (i < left_out.size() && left_out[i] && sums.not_finite == 0) continue;
    ++counted;
    error.most_lost = std::max(error.most_lost, share(sums.lost, sums.nonzero));
    squares += sums.error() * sums.error();
    if (counted > 1 && sums.error() <= error.worst.error) continue;
    error.worst = {.name = gradient.name,
                   .error = sums.error(),
                   .lost = share(sums.lost, sums.nonzero),
                   .not_finite = share(sums.not_finite, sums.count)};
  }
  if (counted > 0) error.total = std::sqrt(squares / static_cast<double>(counted));
  error.lost = share(all.lost, all.nonzero);
  error.not_finite = share(all.not_finite, all.count);
  const double norms = std::sqrt(all.exact * all.found);
  error.cosine = norms > 0 ? all.product / norms : 1;
  return error;
}

GradientError mean_of(std::span<const GradientError> errors) {
  GradientError mean;
  if (errors.empty()) return mean;
  mean = errors[0];
  double squares = 0;
  mean.loss = mean.lost = mean.not_finite = mean.cosine = 0;
  const auto count = static_cast<double>(errors.size());
  for (const GradientError& error : errors) {
    squares += error.total * error.total;
    mean.loss += error.loss / count;
    mean.cosine += error.cosine / count;
    mean.lost += error.lost / count;
    mean.not_finite += error.not_finite / count;
    mean.scale = std::min(mean.scale, error.scale);
    mean.most_lost = std::max(mean.most_lost, error.most_lost);
    if (error.worst.error > mean.worst.error) mean.worst = error.worst;
  }
  mean.total = std::sqrt(squares / count);
  return mean;
}

std::string error_text(double error) {
  if (!std::isfinite(error)) return "infinite";
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g %%", 100 * error);
  return text;
}

Tensor plain_copy(const Tensor& gradient, double scale) {
  const Tensor on_host = gradient.detach().to(kCpuDevice);
  const DType dtype = on_host.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor wide = on_host.dtype() == dtype ? on_host : cast(on_host, dtype);
  const Tensor copy = empty(wide.shape(), dtype);
  copy_elements(wide, copy);
  if (scale == 1) return copy;
  const auto divide = [&]<class T>(T* elements) {
    for (std::int64_t i = 0; i < copy.numel(); ++i) {
      elements[i] = static_cast<T>(elements[i] / scale);
    }
  };
  dtype == DType::kF64 ? divide(copy.mutable_data<double>()) : divide(copy.mutable_data<float>());
  return copy;
}

}  // namespace mezzo::tune
