#include "mezzo/numbers/value_range.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"

namespace mezzo::numbers {
namespace {

// The range of some elements, before they are joined.
class Sums {
 public:
  void add(double value) {
    if (std::isnan(value)) {
      ++range_.nans;
    } else if (std::isinf(value)) {
      ++range_.infinities;
    } else {
      low_ = std::min(low_, value);
      high_ = std::max(high_, value);
      if (value == 0) ++range_.zeros;
      if (value != 0) least_ = std::min(least_, std::abs(value));
    }
  }

  void add(const Sums& other) {
    range_.nans += other.range_.nans;
    range_.infinities += other.range_.infinities;
    range_.zeros += other.range_.zeros;
    low_ = std::min(low_, other.low_);
    high_ = std::max(high_, other.high_);
    least_ = std::min(least_, other.least_);
  }

  ValueRange range(std::int64_t count) const {
    ValueRange range = range_;
    range.count = count;
    if (low_ <= high_) range.low = low_;
    if (low_ <= high_) range.high = high_;
    if (std::isfinite(least_)) range.least_magnitude = least_;
    return range;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ValueRange range_;
  double low_ = kInfinity;
  double high_ = -kInfinity;
  double least_ = kInfinity;
};

}  // namespace

ValueRange range_of(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return {};
  const Tensor host = tensor.to(kCpuDevice);
  const Tensor dense = host.is_one_block() ? host : copy_of(host);
  Sums all;
  std::mutex joining;  // the order does not matter: counts, minima and maxima
  visit_dtype(dense.dtype(), [&]<class T>() {
    const T* elements = dense.data<T>();
    parallel_for(dense.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      Sums some;
      for (std::int64_t i = begin; i < end; ++i) some.add(convert_element<double>(elements[i]));
      const std::lock_guard lock(joining);
      all.add(some);
    });
  });
  return all.range(tensor.numel());
}

std::string short_text(double value) {
  const double magnitude = std::abs(value);
  std::array<char, 32> text{};
  const char* form = magnitude >= 1000 && magnitude < 1e6 ? "%.0f" : "%.3g";
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

std::string ValueRange::text() const {
  if (low == high) return concat("all ", short_text(low));
  return concat("between ", short_text(low), " and ", short_text(high));
}

std::string ValueRange::text_of_bad() const {
  if (all_finite()) return {};
  const auto are = [](std::int64_t n) { return n == 1 ? "is" : "are"; };
  if (nans == 0) return concat(infinities, " of ", count, " ", are(infinities), " infinite");
  if (infinities == 0) return concat(nans, " of ", count, " ", are(nans), " NaN");
  return concat(infinities, " of ", count, " ", are(infinities), " infinite and ", nans, " ",
                are(nans), " NaN");
}

}  // namespace mezzo::numbers
