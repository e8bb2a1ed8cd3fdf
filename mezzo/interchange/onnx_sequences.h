// Translates the operations of sequence models to ONNX: RMS norm, rotary positions, gathering,
// sorting, cumulative sums, triangles.
#pragma once

#include <string>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange::sequences {

// Each function is the `translate` of its operation: see Translation.
std::string rms_norm(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string rope(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string log1p(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string rsqrt(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string softplus(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string gather(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string scatter_add(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string argsort(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string cumsum(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string tril(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string triu(OnnxGraph& graph, const TracedCall& call, const char* type);

}  // namespace mezzo::interchange::sequences
