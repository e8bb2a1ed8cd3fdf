#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/argsort_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel argsort = [](const RefArgs& args) {
  const auto& attrs = args.attrs<ArgsortAttrs>();
  const RefTensor& x = args.inputs[0];
  const auto axis = static_cast<std::size_t>(attrs.axis);
  const std::int64_t size = x.shape[axis];
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.shape.rank(); ++i) inner *= x.shape[i];
  const std::int64_t lines = x.numel() == 0 ? 0 : x.numel() / size;
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  for (std::int64_t line = 0; line < lines; ++line) {
    const double* from = x.data + line / inner * size * inner + line % inner;
    double* to = args.outputs[0].data + line / inner * attrs.count * inner + line % inner;
    const auto is_less = [&](std::int64_t a, std::int64_t b) {
      const double u = from[a * inner];
      const double v = from[b * inner];
      return u < v || (std::isnan(v) && !std::isnan(u));
    };
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return attrs.descending ? is_less(b, a) : is_less(a, b);
    });
    for (std::int64_t i = 0; i < attrs.count; ++i) {
      to[i * inner] = static_cast<double>(order[static_cast<std::size_t>(i)]);
    }
  }
};

}  // namespace mezzo::kernels::ref
