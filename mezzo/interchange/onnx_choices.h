// How comparisons and what is chosen by them are said in ONNX; see Translation.
#pragma once

#include <string>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange {

// Input i of the call; bools as numbers, since ONNX does not order them.
std::string comparable(OnnxGraph& graph, const TracedCall& call, std::size_t i);

// `type` is the operator of the translation, where there is one for all calls.
std::string compare(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string compare_number(OnnxGraph& graph, const TracedCall& call, const char* type);
std::string masked_fill(OnnxGraph& graph, const TracedCall& call, const char* type);

}  // namespace mezzo::interchange
