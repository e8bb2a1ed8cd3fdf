// Cumulative sums: lines along an axis in parallel, a few neighbours at a time.
#include <type_traits>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/cumsum_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::int64_t kMostLines = 64;

template <class Sum, class T>
Sum term(T value) {
  if constexpr (std::is_integral_v<Sum>) {
    return static_cast<Sum>(value);
  } else {
    return static_cast<Sum>(static_cast<float>(value));
  }
}

// A sum as an element: rounded to f32 first, as all kernels' results are.
template <class T, class Sum>
T rounded(Sum sum) {
  if constexpr (std::is_integral_v<Sum>) {
    return static_cast<T>(sum);
  } else {
    return T(static_cast<float>(sum));
  }
}

// The sums of `count` neighbouring lines, whose elements are `inner` apart.
template <class Sum, class T>
void sum_lines(const T* x, T* y, std::int64_t size, std::int64_t inner, std::int64_t count,
               bool reverse) {
  Sum sums[kMostLines]{};
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t at = (reverse ? size - 1 - i : i) * inner;
    for (std::int64_t c = 0; c < count; ++c) {
      sums[c] += term<Sum>(x[at + c]);
      y[at + c] = rounded<T>(sums[c]);
    }
  }
}

template <class Sum, class T>
void run_cumsum(const KernelArgs& args) {
  const auto& attrs = args.attrs<CumsumAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const auto axis = static_cast<std::size_t>(attrs.axis);
  const std::int64_t size = x.shape()[axis];
  const std::int64_t inner = strides_for(x.shape(), Format::kContiguous)[axis];
  const std::int64_t groups = ceil_div(inner, kMostLines);
  const T* from = x.data<T>();
  T* to = args.output().mutable_data<T>();
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / (size * std::min(inner, kMostLines)));
  parallel_for(x.numel() / (size * inner) * groups, grain,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t first = i % groups * kMostLines;
                   const std::int64_t at = i / groups * size * inner + first;
                   sum_lines<Sum>(from + at, to + at, size, inner,
                                  std::min(kMostLines, inner - first), attrs.reverse);
                 }
               });
}

// f64 sums: an f32 that runs over thousands of terms would lose the last of them, and every element
// after them would show it.
void cumsum_kernel(const KernelArgs& args) {
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() { run_cumsum<double, T>(args); });
}

// Unsigned sums wrap around where signed ones would be undefined.
void cumsum_of_integers(const KernelArgs& args) { run_cumsum<std::uint64_t, std::int64_t>(args); }

}  // namespace

extern const KernelList cumsum{{{{"cpu_plain", vector_dtypes_only, cumsum_kernel},
                                 {"cpu_integer", integers_only, cumsum_of_integers}}}};

}  // namespace mezzo::kernels::cpu
