// Triangles of matrices: rows are copied in part, and the rest is 0.
#include <cstring>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/triangular_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

void run_triangle(const KernelArgs& args, bool upper) {
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const std::int64_t diagonal = args.attrs<TriangularAttrs>().diagonal;
  const std::int64_t n = x.shape().back();
  const std::int64_t m = x.shape()[x.rank() - 2];
  const auto element = static_cast<std::int64_t>(size_of(x.dtype()));
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(args.output().mutable_raw_data());
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / n);
  parallel_for(x.numel() / n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const TriangleColumns kept = columns_of(upper, row % m, diagonal, n);
      const std::int64_t at = row * n * element;
      std::memset(to + at, 0, n * element);
      std::memcpy(to + at + kept.begin * element, from + at + kept.begin * element,
                  (kept.end - kept.begin) * element);
    }
  });
}

}  // namespace

extern const KernelList tril{
    {{{"cpu_copy", nullptr, [](const KernelArgs& args) { run_triangle(args, false); }}}}};
extern const KernelList triu{
    {{{"cpu_copy", nullptr, [](const KernelArgs& args) { run_triangle(args, true); }}}}};

}  // namespace mezzo::kernels::cpu
