// Translates the layers of image networks to ONNX: convolution, pooling, normalisation, upsampling.
#pragma once

#include <string>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange::layers {

// Each function is the `translate` of its operation: see Translation.
std::string conv2d(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string conv_transpose2d(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string max_pool2d(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string avg_pool2d(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string batch_norm(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string group_norm(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string layer_norm(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string upsample(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string upsample_bilinear(OnnxGraph& graph, const TracedCall& call, const char* type);

}  // namespace mezzo::interchange::layers
