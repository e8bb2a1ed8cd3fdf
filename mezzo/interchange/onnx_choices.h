// Translates comparisons, and selections that depend on them, to ONNX; see Translation.
#pragma once

#include <string>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange {

// Input i of the call, with bools converted to numbers, since ONNX does not order bools.
std::string comparable(OnnxGraph& graph, const TracedCall& call, std::size_t i);

// `type` is the translation's ONNX operator, if all calls use the same one.
std::string compare(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string compare_number(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string masked_fill(OnnxGraph& graph, const TracedCall& call, const char* type);

}  // namespace mezzo::interchange
