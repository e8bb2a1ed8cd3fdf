// Convolutions as oneDNN sees them: descriptions, and the primitives made of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mezzo/kernels/cpu/onednn.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::conv {

enum class Pass : std::uint8_t { kForward, kGradInput, kGradWeight };

// How the products are added up.
enum class Method : std::uint8_t {
  kDirect,    // one by one; images are channels-last
  kWinograd,  // 36 products for 16 results of a 3x3 kernel; images in oneDNN's blocks of channels
};

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
  Method method = Method::kDirect;

  onednn::Key key() const;

  // oneDNN sees the weight of a grouped convolution as [g, o / g, c / g, kh, kw].
  Shape weight_dims() const;
  Shape weight_strides(const Tensor& tensor) const;

  // The layout of images of that shape.
  onednn::Desc image(const Shape& shape, DType of) const;
};

// The problem of a call of conv2d, and of one of its gradients.
Problem forward_problem(const KernelArgs& args, Method method = Method::kDirect);
Problem gradient_problem(const KernelArgs& args, Pass pass, Method method = Method::kDirect);

// The primitive of the problem, made when it is first asked for; an empty one if oneDNN has none.
std::shared_ptr<const onednn::Primitive> find(const Problem& problem);

// Whether the shapes are such that Winograd's method is faster than the direct one.
Support winograd_pays(const Problem& problem);

// Yes if oneDNN has a primitive for it.
Support support(const Problem& problem);

// An image that a primitive reads: the tensor's own memory if its layout is the method's, else a
// copy.
class ReadImage {
 public:
  ReadImage(const Problem& problem, const Tensor& tensor);
  const dnnl::memory& memory() const { return memory_; }

 private:
  Tensor dense_;
  std::optional<onednn::Temporary> blocks_{};
  dnnl::memory memory_;
};

// An image that a primitive writes. finish() brings it to the tensor, which is dense and
// channels-last.
class WrittenImage {
 public:
  WrittenImage(const Problem& problem, const Tensor& tensor);
  const dnnl::memory& memory() const { return blocks_.has_value() ? blocks_->memory : own_; }
  void finish() const;

 private:
  dnnl::memory own_;
  std::optional<onednn::Temporary> blocks_{};
};

// The weight in the layout that the primitive wants.
onednn::Packed packed_weight(const Problem& problem, const Tensor& weight,
                             const onednn::Primitive& primitive);

}  // namespace mezzo::kernels::conv
