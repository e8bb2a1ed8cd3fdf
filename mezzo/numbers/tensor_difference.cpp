#include "mezzo/numbers/tensor_difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "mezzo/core/convert_element.h"
#include "mezzo/core/error.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::numbers {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr std::int64_t kBlock = 1 << 14;  // elements of a partial sum
constexpr std::int64_t kLanes = 16;       // sums side by side, which compilers make vectors of

struct Factors {
  double a = 1;
  double b = 1;
};

// What is summed over a block.
struct DistanceSums {
  double squares = 0;
  double distances = 0;
  double largest = 0;
  double largest_value = 0;
  std::int64_t differing = 0;
  std::int64_t not_finite = 0;
};

// The difference of two elements: 0 for the same infinities and for two NaN. Not finite if one is.
double apart(double a, double b) {
  const bool is_same = a == b || (a != a && b != b);
  return is_same ? 0 : b - a;
}

template <class A, class B>
bool differs(A a, B b) {
  if constexpr (std::is_same_v<A, B>) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): it is bits that are compared
    return std::memcmp(&a, &b, sizeof(A)) != 0;
  } else {
    return apart(convert_element<double>(a), convert_element<double>(b)) != 0;
  }
}

// DistanceSums of kLanes elements at a time.
struct Lanes {
  std::array<double, kLanes> squares{}, distances{}, largest{}, largest_value{}, odd{};

  template <class A, class B>
  void add(const A* a, const B* b, std::int64_t n, Factors factors) {
    std::array<double, kLanes> left{}, right{};
    for (std::int64_t i = 0; i < n; ++i) left[i] = factors.a * convert_element<double>(a[i]);
    for (std::int64_t i = 0; i < n; ++i) right[i] = factors.b * convert_element<double>(b[i]);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const double d = std::abs(apart(left[i], right[i]));
      const double value = std::abs(left[i]);
      const bool is_finite = d < kUnbounded;  // false for NaN, too
      const double distance = is_finite ? d : 0;
      const double magnitude = value < kUnbounded ? value : 0;
      squares[i] += magnitude * magnitude;
      distances[i] += distance * distance;
      largest[i] = distance > largest[i] ? distance : largest[i];
      largest_value[i] = magnitude > largest_value[i] ? magnitude : largest_value[i];
      odd[i] += is_finite ? 0 : 1;
    }
  }
};

template <class A, class B>
DistanceSums sums_of(const A* a, const B* b, std::int64_t n, Factors factors) {
  Lanes lanes;
  const std::int64_t whole = n / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) lanes.add(a + i, b + i, kLanes, factors);
  if (whole < n) lanes.add(a + whole, b + whole, n - whole, factors);
  DistanceSums sums;
  for (std::int64_t i = 0; i < kLanes; ++i) {
    sums.squares += lanes.squares[i];
    sums.distances += lanes.distances[i];
    sums.largest = std::max(sums.largest, lanes.largest[i]);
    sums.largest_value = std::max(sums.largest_value, lanes.largest_value[i]);
    sums.not_finite += static_cast<std::int64_t>(lanes.odd[i]);
  }
  // With factors, bits say nothing.
  const bool by_value = factors.a != factors.b;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool is_other = by_value ? apart(factors.a * convert_element<double>(a[i]),
                                           factors.b * convert_element<double>(b[i])) != 0
                                   : differs(a[i], b[i]);
    sums.differing += is_other ? 1 : 0;
  }
  return sums;
}

// Two arrays in the same order.
template <class A, class B>
class Comparing {
 public:
  Comparing(const A* a, const B* b, std::int64_t n, Factors factors)
      : a_(a), b_(b), n_(n), factors_(factors) {}

  TensorDifference result() {
    blocks_.resize(static_cast<std::size_t>((n_ + kBlock - 1) / kBlock));
    parallel_for(static_cast<std::int64_t>(blocks_.size()), 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) blocks_[i] = block(i);
                 });
    TensorDifference all{.count = n_};
    double squares = 0;
    double distances = 0;
    for (const DistanceSums& sums : blocks_) {
      squares += sums.squares;
      distances += sums.distances;
      all.largest = std::max(all.largest, sums.largest);
      all.largest_value = std::max(all.largest_value, sums.largest_value);
      all.differing += sums.differing;
      all.not_finite += sums.not_finite;
    }
    all.norm = std::sqrt(squares);
    all.distance = std::sqrt(distances);
    if (all.differing > 0) find_places(all);
    return all;
  }

 private:
  std::int64_t begin_of(std::int64_t block) const { return block * kBlock; }
  std::int64_t end_of(std::int64_t block) const { return std::min(n_, (block + 1) * kBlock); }

  DistanceSums block(std::int64_t i) const {
    const std::int64_t begin = begin_of(i);
    return sums_of(a_ + begin, b_ + begin, end_of(i) - begin, factors_);
  }

  double apart_at(std::int64_t i) const {
    return std::abs(apart(factors_.a * convert_element<double>(a_[i]),
                          factors_.b * convert_element<double>(b_[i])));
  }

  // The first element of the first block that is wanted.
  template <class Block, class Element>
  std::int64_t find(const Block& has, const Element& is) const {
    const auto at = std::ranges::find_if(blocks_, has) - blocks_.begin();
    if (at == static_cast<std::ptrdiff_t>(blocks_.size())) return -1;
    for (std::int64_t i = begin_of(at); i < end_of(at); ++i) {
      if (is(i)) return i;
    }
    return -1;
  }

  void find_places(TensorDifference& all) const {
    const bool by_value = factors_.a != factors_.b;
    all.first_at =
        find([](const DistanceSums& sums) { return sums.differing > 0; },
             [&](std::int64_t i) { return by_value ? apart_at(i) != 0 : differs(a_[i], b_[i]); });
    if (all.not_finite > 0) {
      all.largest_at = find([](const DistanceSums& sums) { return sums.not_finite > 0; },
                            [&](std::int64_t i) { return !(apart_at(i) < kUnbounded); });
    } else {
      all.largest_at = find([&](const DistanceSums& sums) { return sums.largest == all.largest; },
                            [&](std::int64_t i) { return apart_at(i) == all.largest; });
    }
  }

  const A* a_;
  const B* b_;
  std::int64_t n_;
  Factors factors_;
  std::vector<DistanceSums> blocks_;
};

// True if all bytes of two arrays are equal.
bool have_equal_bytes(const void* a, const void* b, std::int64_t bytes) {
  constexpr std::int64_t kPart = 1 << 18;
  std::vector<char> is_equal(static_cast<std::size_t>((bytes + kPart - 1) / kPart), 0);
  parallel_for(static_cast<std::int64_t>(is_equal.size()), 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t at = i * kPart;
                   const auto size = static_cast<std::size_t>(std::min(kPart, bytes - at));
                   is_equal[i] = std::memcmp(static_cast<const char*>(a) + at,
                                             static_cast<const char*>(b) + at, size) == 0
                                     ? 1
                                     : 0;
                 }
               });
  return std::ranges::all_of(is_equal, [](char equal) { return equal != 0; });
}

// f16 and the types of eight bits are converted by the vectors of a kernel first, and integers are
// compared as f64.
Tensor readable(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF16 || is_eight_bit(tensor.dtype()))
    return cast(tensor.detach(), DType::kF32);
  return is_floating(tensor.dtype()) ? tensor : cast(tensor, DType::kF64);
}

// Calls function.template operator()<T>() for the dtypes that readable() gives.
template <class Function>
void visit_readable(DType dtype, const Function& function) {
  if (dtype == DType::kBf16) return function.template operator()<BFloat16>();
  if (dtype == DType::kF64) return function.template operator()<double>();
  function.template operator()<float>();
}

// The place in row-major order of the element that is at a place of channels-last memory.
std::int64_t row_major_place(std::int64_t place, const Tensor& tensor) {
  if (place < 0 || tensor.is_dense()) return place;
  const Shape& shape = tensor.shape();  // [n, c, h, w], in memory as n, h, w, c
  const std::int64_t c = place % shape[1];
  const std::int64_t pixel = place / shape[1];
  const std::int64_t plane = shape[2] * shape[3];
  return (pixel / plane * shape[1] + c) * plane + pixel % plane;
}

}  // namespace

double TensorDifference::relative() const {
  if (not_finite > 0) return kUnbounded;
  if (distance == 0) return 0;
  return norm > 0 ? distance / norm : kUnbounded;
}

double TensorDifference::largest_to_rms() const {
  if (not_finite > 0) return kUnbounded;
  if (largest == 0) return 0;
  return norm > 0 ? largest / (norm / std::sqrt(static_cast<double>(count))) : kUnbounded;
}

double TensorDifference::largest_to_largest() const {
  if (not_finite > 0) return kUnbounded;
  if (largest == 0) return 0;
  return largest_value > 0 ? largest / largest_value : kUnbounded;
}

TensorDifference difference_of(const Tensor& a, const Tensor& b, double factor_a, double factor_b) {
  check_arg(a.shape() == b.shape(), "difference_of", "the shapes ", a.shape(), " and ", b.shape(),
            " differ. Compare tensors of one shape");
  const NoGrad not_recorded;
  const WithoutPrecisionHook not_cast;
  const WithoutCallListener not_heard;
  const Tensor left = a.is_one_block() ? a : contiguous(a);
  const Tensor right = to_format(b, left.format());
  if (left.dtype() == right.dtype() && factor_a == factor_b &&
      have_equal_bytes(left.raw_data(), right.raw_data(),
                       static_cast<std::int64_t>(left.bytes()))) {
    return {.count = left.numel()};
  }
  const Tensor plain_a = readable(left);
  const Tensor plain_b = readable(right);
  TensorDifference result;
  visit_readable(plain_a.dtype(), [&]<class A>() {
    visit_readable(plain_b.dtype(), [&]<class B>() {
      result =
          Comparing<A, B>(plain_a.data<A>(), plain_b.data<B>(), a.numel(), {factor_a, factor_b})
              .result();
    });
  });
  result.first_at = row_major_place(result.first_at, left);
  result.largest_at = row_major_place(result.largest_at, left);
  return result;
}

Shape index_of(std::int64_t place, const Shape& shape) {
  Shape index = Shape::filled(shape.rank(), 0);
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    index[axis] = place % shape[axis];
    place /= shape[axis];
  }
  return index;
}

}  // namespace mezzo::numbers
