// How kernels get dense tensors: the tensor itself where it is dense, a copy otherwise.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// The tensor itself if it is dense in that format, else a dense copy in scratch memory. The copy
// lasts as long as the kernel's call.
Tensor dense(const Tensor& tensor, Format format);

// The tensor itself if it is f32 and dense in that format, else a dense f32 copy, as above. The
// tensor may be the lazy 16-bit copy of an f32 parameter. Then the copy is not filled for this,
// since it would stay in memory for the rest of the step: the parameter's values are rounded on the
// way.
Tensor dense_f32(const Tensor& tensor, Format format = Format::kContiguous);

// True if both tensors are dense with the same order in memory: element i of one block of memory is
// element i of the other.
bool same_dense_layout(const Tensor& a, const Tensor& b);

// Steps in a convolution's weight, in elements: from one input channel to the next, and from one
// tap to the next. The weight is a block [o, c, taps] of either format.
struct WeightSteps {
  std::int64_t channel = 1;
  std::int64_t tap = 1;
};
// The steps of the weight [o, c, kh, kw]; nullopt if it is not dense.
std::optional<WeightSteps> weight_steps(const Tensor& weight);

// Calls function.operator()<T>() for the dtypes that vector kernels compute: f32, bf16 and f16.
// Returns false for others.
template <class Function>
bool visit_vector_dtype(DType dtype, Function&& function) {
  if (dtype == DType::kF32) {
    function.template operator()<float>();
  } else if (is_lower(dtype)) {
    visit_lower_dtype(dtype, function);
  } else {
    return false;
  }
  return true;
}

inline bool is_vector_dtype(DType dtype) { return is_trainable(dtype); }

// `supports` of vector kernels whose inputs and outputs are all floating-point.
inline Support vector_dtypes_only(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (input->defined() && !is_vector_dtype(input->dtype())) {
      return Support::no("only f32, bf16 and f16 are vectorised");
    }
  }
  return Support::yes();
}

// The kernel list of an operation with a single kernel for vector dtypes.
constexpr KernelList simd_kernel(void (*run)(const KernelArgs&)) {
  return {{{{"cpu_simd", vector_dtypes_only, run}}}};
}

}  // namespace mezzo::kernels
