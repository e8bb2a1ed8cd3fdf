// Starting kernels: grids, streams and pointers of tensors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::cuda {

inline constexpr int kThreads = 256;

// The first element, for reading or for writing; the latter counts as a change.
template <class T>
const T* in(const Tensor& tensor) {
  return static_cast<const T*>(tensor.address());
}
template <class T>
T* out(const Tensor& tensor) {
  tensor.bump_version();
  return static_cast<T*>(tensor.address());
}
// in() for an input that may be absent.
template <class T>
const T* in_or_null(const Tensor& tensor) {
  return tensor.defined() ? in<T>(tensor) : nullptr;
}

// Where the kernels of a call run. Makes the device current while it exists.
class Launch {
 public:
  explicit Launch(Device device) : on_(device), context_(context_of(device)) {}
  explicit Launch(const Tensor& tensor) : Launch(tensor.device()) {}

  cudaStream_t stream() const { return context_.stream(); }
  Device device() const { return context_.device(); }
  Context& context() const { return context_; }
  // Thread blocks for `items` threads' work in loops over the whole grid. There are enough to keep
  // every multiprocessor busy, and no more, so that each thread has several iterations.
  int blocks_for(std::int64_t items, int threads = kThreads) const {
    constexpr std::int64_t kResident = 2048;  // threads that a multiprocessor holds
    const std::int64_t wanted = (items + threads - 1) / threads;
    const std::int64_t most = 4 * context_.multiprocessors() * (kResident / threads);
    return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
  }

 private:
  OnDevice on_;
  Context& context_;
};

// A thread's first item and step in a loop over the whole grid.
__device__ inline std::int64_t grid_first() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// `supports` of kernels over inputs and outputs that are all f32, bf16 or f16.
inline Support float_dtypes_only(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (input->defined() && !is_vector_dtype(input->dtype())) {
      return Support::no("only f32, bf16 and f16 are supported on GPUs");
    }
  }
  return Support::yes();
}

}  // namespace mezzo::kernels::cuda
