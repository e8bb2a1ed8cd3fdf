// Triangles of matrices. Elements are moved as they are, whatever their dtype.
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/ops/triangular_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The rows and columns of the matrices, and which elements are kept.
struct Triangle {
  std::int64_t rows, columns, diagonal;
  bool upper;

  __device__ bool has(std::int64_t i) const {
    const std::int64_t distance = i % columns - i / columns % rows;  // from the diagonal 0
    return upper ? distance >= diagonal : distance <= diagonal;
  }
};

template <class T>
__global__ void triangle_kernel(Triangle triangle, std::int64_t n, const T* x, T* out) {
  for (std::int64_t i = grid_first(); i < n; i += grid_step()) {
    out[i] = triangle.has(i) ? x[i] : T(0);
  }
}

template <class T>
void start(const Tensor& x, const Tensor& output, const Triangle& triangle) {
  const Launch launch(x);
  triangle_kernel<<<launch.blocks_for(x.numel()), kThreads, 0, launch.stream()>>>(
      triangle, x.numel(), in<T>(x), out<T>(output));
  check_launch("triangle_kernel");
}

void run_triangle(const KernelArgs& args, bool upper) {
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const Triangle triangle{x.shape()[x.rank() - 2], x.shape().back(),
                          args.attrs<TriangularAttrs>().diagonal, upper};
  switch (size_of(x.dtype())) {
    case 1: return start<std::uint8_t>(x, args.output(), triangle);
    case 2: return start<std::uint16_t>(x, args.output(), triangle);
    case 4: return start<std::uint32_t>(x, args.output(), triangle);
    default: return start<std::uint64_t>(x, args.output(), triangle);
  }
}

}  // namespace

extern const KernelList tril{
    {{{"cuda", nullptr, [](const KernelArgs& args) { run_triangle(args, false); }}}}};
extern const KernelList triu{
    {{{"cuda", nullptr, [](const KernelArgs& args) { run_triangle(args, true); }}}}};

}  // namespace mezzo::kernels::cuda
