#include "mezzo/kernels/cuda/convolution_graph.h"

#include <algorithm>
#include <array>

namespace mezzo::kernels::cuda {
namespace {

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CUDNN_DATA_BFLOAT16;
    case DType::kF16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
  }
}

// `alignment` is what all pointers have; an element's own size is one that cuDNN insists on.
Descriptor describe_tensor(ConvTensor uid, const std::array<std::int64_t, 4>& sizes, DType dtype,
                           std::int64_t alignment) {
  alignment = std::max(alignment, static_cast<std::int64_t>(size_of(dtype)));
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto [n, c, h, w] = sizes;
  const std::array<std::int64_t, 4> strides{h * w * c, 1, w * c, c};
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  tensor.set_numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
  tensor.set_numbers(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, static_cast<std::int64_t>(uid));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
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

// What cuDNN calls the parts of a pass.
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

}  // namespace

Descriptor describe_graph(cudnnHandle_t handle, const ConvProblem& p) {
  const auto type_for = [&](ConvPass result_of) {
    return p.pass == result_of ? p.result : p.dtype;
  };
  const Descriptor x = describe_tensor(kConvX, p.x, type_for(ConvPass::kGradInput), p.alignment);
  const Descriptor weight =
      describe_tensor(kConvWeight, p.weight, type_for(ConvPass::kGradWeight), p.alignment);
  const Descriptor y = describe_tensor(kConvY, p.y, type_for(ConvPass::kForward), p.alignment);
  const Descriptor window = describe_window(p.attrs);
  const PassNames names = names_of(p.pass);
  Descriptor operation(names.operation);
  operation.set(names.x, x);
  operation.set(names.weight, weight);
  operation.set(names.y, y);
  operation.set(names.window, window);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return graph;
}

}  // namespace mezzo::kernels::cuda
