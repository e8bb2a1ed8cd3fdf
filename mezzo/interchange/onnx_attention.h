// Translates attention to ONNX; see Translation.
#pragma once

#include <string>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange {

// Writes products, masks and a softmax: this opset has no operator for attention.
std::string attention(OnnxGraph& graph, const TracedCall& call, const char* type);

}  // namespace mezzo::interchange
