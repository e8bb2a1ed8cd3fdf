#include "mezzo/kernels/cuda/convolution_graph.h"

#include <algorithm>
#include <array>
#include <span>

namespace mezzo::kernels::cuda {
namespace {

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CUDNN_DATA_BFLOAT16;
    case DType::kF16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
  }
}

// `alignment` is that of all pointers; cuDNN insists on at least the element size.
Descriptor describe_tensor(ConvTensor uid, const std::array<std::int64_t, 4>& sizes, DType dtype,
                           std::int64_t alignment, bool is_in_memory = true) {
  alignment = std::max(alignment, static_cast<std::int64_t>(size_of(dtype)));
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto [n, c, h, w] = sizes;
  const std::array<std::int64_t, 4> strides{h * w * c, 1, w * c, c};
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  tensor.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  tensor.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uid));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  if (!is_in_memory) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  tensor.finalize();
  return tensor;
}

Descriptor describe_window(const Conv2dAttrs& attrs) {
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  // Sums are f32 for every dtype: a 16-bit sum stops growing after some hundred terms.
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2});
  const auto pair = [&](cudnnBackendAttributeName_t name, std::int64_t h, std::int64_t w) {
    window.set_numbers(name, std::array<std::int64_t, 2>{h, w});
  };
  pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, attrs.padding.top, attrs.padding.left);
  pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, attrs.padding.bottom, attrs.padding.right);
  pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, attrs.dilation.h, attrs.dilation.w);
  pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, attrs.stride.h, attrs.stride.w);
  window.finalize();
  return window;
}

// cuDNN's names for the parts of a pass.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, window, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::kGradInput:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::kGradWeight: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

// The tensors of a pass, one of which is its result.
struct Tensors {
  const Descriptor& x;
  const Descriptor& weight;
  const Descriptor& y;
};

Descriptor describe_convolution(const ConvProblem& p, const Tensors& tensors) {
  const Descriptor window = describe_window(p.attrs);
  const PassNames names = names_of(p.pass);
  Descriptor operation(names.operation);
  operation.set(names.x, tensors.x);
  operation.set(names.weight, tensors.weight);
  operation.set(names.y, tensors.y);
  operation.set(names.window, window);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalize();
  return operation;
}

Descriptor describe_identity(const Descriptor& from, const Descriptor& to) {
  Descriptor identity(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  identity.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY);
  identity.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  identity.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, identity);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
  operation.finalize();
  return operation;
}

Descriptor describe_operations(cudnnHandle_t handle,
                               std::span<const cudnnBackendDescriptor_t> operations) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  graph.finalize();
  return graph;
}

}  // namespace

Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& p, ConvTail tail) {
  const auto in_memory = [&](ConvTensor uid, ConvPass if_result_of,
                             const std::array<std::int64_t, 4>& sizes) {
    return describe_tensor(uid, sizes, p.pass == if_result_of ? p.result : p.dtype, p.alignment);
  };
  const Descriptor x = in_memory(kConvX, ConvPass::kGradInput, p.x);
  const Descriptor weight = in_memory(kConvWeight, ConvPass::kGradWeight, p.weight);
  const Descriptor y = in_memory(kConvY, ConvPass::kForward, p.y);
  if (tail == ConvTail::kNone) {
    const Descriptor operation = describe_convolution(p, {x, weight, y});
    return describe_operations(handle, std::array{operation.get()});
  }
  const bool makes_x = p.pass == ConvPass::kGradInput;
  const bool makes_y = p.pass == ConvPass::kForward;
  const Descriptor sums = describe_tensor(kConvSums,
                                          makes_x   ? p.x
                                          : makes_y ? p.y
                                                    : p.weight,
                                          DType::kF32, p.alignment, false);
  const Descriptor operation = describe_convolution(
      p, {makes_x ? sums : x, makes_x || makes_y ? weight : sums, makes_y ? sums : y});
  const Descriptor identity = describe_identity(sums, makes_x ? x : makes_y ? y : weight);
  return describe_operations(handle, std::array{operation.get(), identity.get()});
}

}  // namespace mezzo::kernels::cuda
