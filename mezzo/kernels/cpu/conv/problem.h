// Convolutions as oneDNN sees them: descriptions, and the primitives made from them.
#pragma once

#include <cstdint>
#include <memory>

#include "mezzo/kernels/cpu/onednn/onednn.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::conv {

enum class Pass : std::uint8_t { kForward, kGradInput, kGradWeight };

// One convolution, whichever of its three tensors is the result.
struct Problem {
  Pass pass = Pass::kForward;
  Shape x;       // [n, c, h, w]
  Shape weight;  // [o, c / groups, kh, kw]
  Shape y;       // [n, o, oh, ow]
  Conv2dAttrs attrs;
  DType dtype = DType::kF32;   // of the operands
  DType result = DType::kF32;  // of the result
  bool has_bias = false;
  bool on_one_thread = false;  // made so that a single thread computes all of it

  onednn::Key key() const;

  // oneDNN sees the weight of a grouped convolution as [g, o / g, c / g, kh, kw].
  Shape weight_dims() const;
  Shape weight_strides(const Tensor& tensor) const;
};

// The problem of a call of conv2d, and of a call of one of its gradients.
Problem forward_problem(const KernelArgs& args);
Problem gradient_problem(const KernelArgs& args, Pass pass);
Problem grad_input_problem(const KernelArgs& args);
Problem grad_weight_problem(const KernelArgs& args);
// The problem of a call of conv_transpose2d: the gradient of a convolution with respect to its
// input, with a bias.
Problem transposed_problem(const KernelArgs& args);

// The primitive of the problem, created at the first request; empty if oneDNN has none.
std::shared_ptr<const onednn::Primitive> find(const Problem& problem);

// Yes if oneDNN has a primitive for it.
Support support(const Problem& problem);

// Yes if vector kernels compute the operands' dtypes, and operands and result have elements.
Support supports_vector_tensors(const KernelArgs& args);

// The memory of an image, dense and channels-last.
dnnl::memory image_memory(const Tensor& tensor);

// The weight in the layout that the primitive reads.
onednn::Packed packed_weight(const Problem& problem, const Tensor& weight,
                             const onednn::Primitive& primitive);

}  // namespace mezzo::kernels::conv
