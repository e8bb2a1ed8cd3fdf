// The 2-norm over any axes. Squares are summed in f64: on CPUs it costs nothing where memory is the
// limit, and neither overflows, as f32 does for elements beyond 1e19, nor loses the last of many
// terms.
#include <cmath>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

// The most results that are computed together.
constexpr std::int64_t kMostTogether = 64;

// Some axes of a tensor.
struct Axes {
  Shape sizes;
  Strides strides;

  std::int64_t offset(std::int64_t flat) const { return offset_of(flat, sizes, strides); }
};

// A dense tensor by the axes that are kept and those that are reduced; neither list is empty.
class NormPlan {
 public:
  NormPlan(const Tensor& x, const ReduceAttrs& attrs) {
    for (std::size_t i = 0; i < x.rank(); ++i) {
      const auto axis = static_cast<std::int64_t>(i);
      const bool is_reduced = std::ranges::find(attrs.axes, axis) != attrs.axes.end();
      Axes& axes = is_reduced ? reduced : kept;
      axes.sizes.push_back(x.shape()[i]);
      axes.strides.push_back(x.strides()[i]);
    }
    for (Axes* axes : {&kept, &reduced}) {
      if (!axes->sizes.empty()) continue;
      axes->sizes.push_back(1);
      axes->strides.push_back(0);
    }
    // Results whose elements are neighbours are computed together.
    const bool are_neighbours = kept.strides.back() == 1;
    together = are_neighbours ? std::min(kMostTogether, kept.sizes.back()) : 1;
    groups_in_row = ceil_div(kept.sizes.back(), together);
  }

  std::int64_t groups() const { return kept.sizes.numel() / kept.sizes.back() * groups_in_row; }
  // The first result of a group, and how many it has.
  std::int64_t first_of(std::int64_t group) const {
    return group / groups_in_row * kept.sizes.back() + group % groups_in_row * together;
  }
  std::int64_t count_of(std::int64_t group) const {
    return std::min(together, kept.sizes.back() - group % groups_in_row * together);
  }

  Axes kept;
  Axes reduced;
  std::int64_t together = 1;
  std::int64_t groups_in_row = 1;
};

// Adds the squares of one result's elements along the last reduced axis.
template <class T>
double squares_of_row(const T* x, std::int64_t size, std::int64_t stride) {
  double sums[4]{};  // four sums do not wait for one another
  std::int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (std::int64_t k = 0; k < 4; ++k) {
      const double v = static_cast<float>(x[(i + k) * stride]);
      sums[k] += v * v;
    }
  }
  for (; i < size; ++i) {
    const double v = static_cast<float>(x[i * stride]);
    sums[0] += v * v;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <class T>
void norms_of_group(const T* x, const NormPlan& plan, std::int64_t group, T* out) {
  double sums[kMostTogether]{};
  const std::int64_t first = plan.first_of(group);
  const std::int64_t count = plan.count_of(group);
  const T* from = x + plan.kept.offset(first);
  const std::int64_t size = plan.reduced.sizes.back();
  const std::int64_t stride = plan.reduced.strides.back();
  for (std::int64_t row = 0; row < plan.reduced.sizes.numel() / size; ++row) {
    const T* line = from + plan.reduced.offset(row * size);
    if (count == 1) {
      sums[0] += squares_of_row(line, size, stride);
      continue;
    }
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t c = 0; c < count; ++c) {
        const double v = static_cast<float>(line[i * stride + c]);
        sums[c] += v * v;
      }
    }
  }
  for (std::int64_t c = 0; c < count; ++c) {
    out[first + c] = T(static_cast<float>(std::sqrt(sums[c])));
  }
}

void norm_kernel(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (out.numel() == 0) return;
  const NormPlan plan(x, args.attrs<ReduceAttrs>());
  const std::int64_t of_group =
      std::max<std::int64_t>(1, plan.reduced.sizes.numel() * plan.together);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    T* to = out.mutable_data<T>();
    if (x.numel() == 0) {
      std::fill_n(to, out.numel(), T(0.0F));
      return;
    }
    parallel_for(plan.groups(), std::max<std::int64_t>(1, kElementGrain / of_group),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t group = begin; group < end; ++group) {
                     norms_of_group(x.data<T>(), plan, group, to);
                   }
                 });
  });
}

}  // namespace

extern const KernelList norm{{{{"cpu_plain", vector_dtypes_only, norm_kernel}}}};

}  // namespace mezzo::kernels::cpu
