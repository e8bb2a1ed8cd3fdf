// Sorting along an axis: each element counts those that come before it, which is its place. That
// takes the square of the line's length in comparisons, all at once, and has one result.
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/argsort_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// NaN is the largest.
__device__ bool is_less(float a, float b) { return a < b || (isnan(b) && !isnan(a)); }

template <class T>
__global__ void argsort_kernel(Rows lines, ArgsortAttrs attrs, const T* x, std::int64_t* out) {
  for (std::int64_t i = grid_first(); i < lines.count * lines.size; i += grid_step()) {
    const std::int64_t line = i / lines.size;
    const std::int64_t mine = i % lines.size;
    const T* from = x + lines.start(line);
    const float value = widen(from[mine * lines.inner]);
    std::int64_t place = 0;
    for (std::int64_t j = 0; j < lines.size && place < attrs.count; ++j) {
      const float other = widen(from[j * lines.inner]);
      const bool is_before = attrs.descending ? is_less(value, other) : is_less(other, value);
      const bool is_after = attrs.descending ? is_less(other, value) : is_less(value, other);
      place += is_before || (!is_after && j < mine) ? 1 : 0;
    }
    const Rows wanted{lines.count, attrs.count, lines.inner};
    if (place < attrs.count) out[wanted.start(line) + place * lines.inner] = mine;
  }
}

void run_argsort(const KernelArgs& args) {
  const auto& attrs = args.attrs<ArgsortAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0 || attrs.count == 0) return;
  const Launch launch(x);
  const Rows lines =
      rows_along(x.shape(), static_cast<std::size_t>(attrs.axis), Format::kContiguous);
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    argsort_kernel<<<launch.blocks_for(x.numel()), kThreads, 0, launch.stream()>>>(
        lines, attrs, in<T>(x), out<std::int64_t>(args.output()));
  });
  check_launch("argsort_kernel");
}

}  // namespace

extern const KernelList argsort{{{{"cuda", float_dtypes_only, run_argsort}}}};

}  // namespace mezzo::kernels::cuda
