// Elements that indices choose, and sums at places that indices choose.
#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/kernels/cuda/memory.h"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/ops/axis_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The axis that indices address.
struct Along {
  std::int64_t size;
  std::int64_t stride;
  Report* report;

  // Element 0 in place of one that does not exist: the host is told, and nothing outside is read.
  __device__ std::int64_t offset(std::int64_t at, std::int64_t index) const {
    return check_range(report, Fault::kIndex, at, index, size) ? index * stride : 0;
  }
};

Along along(const Tensor& x, std::size_t axis) {
  return {x.shape()[axis], x.strides()[axis], report_of(x.device())};
}

Strides without(Strides strides, std::size_t axis) {
  strides[axis] = 0;
  return strides;
}

template <class T>
__global__ void gather_kernel(std::int64_t n, Dims<3> dims, Along axis, const T* x,
                              const std::int64_t* index, T* out) {
  const bool is_small = n <= 0x7fffffff;
  for (std::int64_t i = grid_first(); i < n; i += grid_step()) {
    std::int64_t at[3];
    dims.locate_any(i, is_small, at);
    out[at[0]] = x[at[2] + axis.offset(at[0], index[at[1]])];
  }
}

// Elements are moved as unsigned integers of their size.
template <class Visit>
void visit_bytes(std::size_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1: return visit.template operator()<std::uint8_t>();
    case 2: return visit.template operator()<std::uint16_t>();
    case 4: return visit.template operator()<std::uint32_t>();
    default: return visit.template operator()<std::uint64_t>();
  }
}

void run_gather(const KernelArgs& args) {
  const Tensor& x = args.input(0);
  const Tensor& index = args.input(1);
  const Tensor& output = args.output();
  if (index.numel() == 0) return;
  const auto axis = static_cast<std::size_t>(args.attrs<AxisAttrs>().axis);
  const Launch launch(output);
  const Loop<3> loop =
      make_loop<3>(index.shape(), {output.strides(), index.strides(), without(x.strides(), axis)});
  visit_bytes(size_of(x.dtype()), [&]<class T>() {
    gather_kernel<<<launch.blocks_for(index.numel()), kThreads, 0, launch.stream()>>>(
        index.numel(), Dims<3>(loop), along(x, axis), in<T>(x), in<std::int64_t>(index),
        out<T>(output));
  });
  check_launch("gather_kernel");
}

// One thread adds up a line along the axis in the order of the indices, so that the bits are the
// same every time, while the order of atomic additions varies. Sums are f32.
template <class T>
__global__ void scatter_add_kernel(std::int64_t lines, Dims<2> dims, std::int64_t length,
                                   std::int64_t step, Along axis, const std::int64_t* index,
                                   const T* source, float* sums) {
  const bool is_small = lines <= 0x7fffffff;
  for (std::int64_t i = grid_first(); i < lines; i += grid_step()) {
    std::int64_t at[2];
    dims.locate_any(i, is_small, at);
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t from = at[0] + j * step;
      sums[at[1] + axis.offset(from, index[from])] += widen(source[from]);
    }
  }
}

void run_scatter_add(const KernelArgs& args) {
  const Tensor& output = args.output();
  const Tensor index = dense(args.input(1), Format::kContiguous);
  const Tensor source = dense(args.input(2), Format::kContiguous);
  const Launch launch(output);
  const bool is_f32 = output.dtype() == DType::kF32;
  const Tensor sums =
      is_f32 ? output : empty(output.shape(), DType::kF32, Format::kContiguous, output.device());
  copy_tensor(args.input(0), sums);
  if (index.numel() > 0) {
    const auto axis = static_cast<std::size_t>(args.attrs<AxisAttrs>().axis);
    Shape lines = index.shape();
    lines[axis] = 1;
    const Dims<2> dims(make_loop<2>(lines, {index.strides(), sums.strides()}));
    visit_vector_dtype(source.dtype(), [&]<class T>() {
      scatter_add_kernel<<<launch.blocks_for(lines.numel()), kThreads, 0, launch.stream()>>>(
          lines.numel(), dims, index.shape()[axis], index.strides()[axis], along(sums, axis),
          in<std::int64_t>(index), in<T>(source), out<float>(sums));
    });
    check_launch("scatter_add_kernel");
  }
  if (!is_f32) copy_tensor(sums, output);
  output.bump_version();
}

Support floats_only(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16 are added");
}

}  // namespace

extern const KernelList gather{{{{"cuda", nullptr, run_gather}}}};
extern const KernelList scatter_add{{{{"cuda", floats_only, run_scatter_add}}}};

}  // namespace mezzo::kernels::cuda
