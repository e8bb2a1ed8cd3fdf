// Cumulative sums: one thread for each line along the axis.
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/cumsum_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// Sums are f64: an f32 that runs over thousands of terms would lose the last of them.
template <class T>
__global__ void cumsum_kernel(Rows lines, bool reverse, const T* x, T* out) {
  for (std::int64_t line = grid_first(); line < lines.count; line += grid_step()) {
    const std::int64_t start = lines.start(line);
    double sum = 0;
    for (std::int64_t i = 0; i < lines.size; ++i) {
      const std::int64_t at = start + (reverse ? lines.size - 1 - i : i) * lines.inner;
      sum += widen(x[at]);
      out[at] = narrow<T>(static_cast<float>(sum));
    }
  }
}

void run_cumsum(const KernelArgs& args) {
  const auto& attrs = args.attrs<CumsumAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const Launch launch(x);
  const Rows lines =
      rows_along(x.shape(), static_cast<std::size_t>(attrs.axis), Format::kContiguous);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    cumsum_kernel<<<launch.blocks_for(lines.count), kThreads, 0, launch.stream()>>>(
        lines, attrs.reverse, in<T>(x), out<T>(args.output()));
  });
  check_launch("cumsum_kernel");
}

}  // namespace

extern const KernelList cumsum{{{{"cuda", float_dtypes_only, run_cumsum}}}};

}  // namespace mezzo::kernels::cuda
