// The table of translations from operations to ONNX.
#pragma once

#include <string>
#include <string_view>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange {

struct Translation {
  std::string_view op;
  const char* type;  // of the ONNX operator; null if none is needed
  // Adds the nodes of a call to the graph, on which begin() was called for it, and returns the name
  // of the call's first result.
  std::string (*translate)(OnnxGraph& graph, const TracedCall& call, const char* type);
  // The attributes are the sizes of the result, which may depend on the batch.
  bool attrs_are_sizes = false;
};

// The translation of an operation; null if there is none.
const Translation* find_translation(std::string_view op);

// The operations that have a translation, for messages: `add, avg_pool2d, ...`.
std::string translated_ops();

}  // namespace mezzo::interchange
