// How kernels look at tensors: densely where possible, by copy where not.
#pragma once

#include <cstdint>
#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels {

// The tensor itself if it is dense in that format, else a dense copy in scratch memory, which lasts
// as long as the call of the kernel that asks for it.
Tensor dense(const Tensor& tensor, Format format);

// The tensor itself if it is f32 and dense in that format, else a dense f32 copy, as above. The
// 16-bit copy of an f32 parameter whose elements nobody has asked for yet is not filled for this,
// which would keep it in memory for the rest of the step: the parameter's numbers are rounded on
// the way.
Tensor dense_f32(const Tensor& tensor, Format format = Format::kContiguous);

// True if both fill one block of memory in the same order, so that element i of one in memory is
// element i of the other.
bool same_dense_layout(const Tensor& a, const Tensor& b);

// From one number of a convolution's weight to the next input channel, and to the next tap, in a
// block [o, c, taps] of either format.
struct WeightSteps {
  std::int64_t channel = 1;
  std::int64_t tap = 1;
};
// Nothing if the weight [o, c, kh, kw] is not dense.
std::optional<WeightSteps> weight_steps(const Tensor& weight);

// Calls function.operator()<T>() for the dtypes that vector kernels compute, f32 and the lower
// ones; false for others.
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

inline bool is_vector_dtype(DType dtype) { return dtype == DType::kF32 || is_lower(dtype); }

// `supports` of vector kernels over inputs and outputs that are all floating-point.
inline Support vector_dtypes_only(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (input->defined() && !is_vector_dtype(input->dtype())) {
      return Support::no("only f32, bf16 and f16 are vectorised");
    }
  }
  return Support::yes();
}

// The list of an operation with one kernel over them.
constexpr KernelList simd_kernel(void (*run)(const KernelArgs&)) {
  return {{{{"cpu_simd", vector_dtypes_only, run}}}};
}

}  // namespace mezzo::kernels
