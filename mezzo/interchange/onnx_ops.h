// The table of translations from operations to ONNX.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mezzo/interchange/onnx_graph.h"

namespace mezzo::interchange {

// What the attributes of an operation may depend on, besides the network.
enum class Varies : std::uint8_t {
  kNot,
  kWithLength,  // of the sequence: see OnnxGraph::attrs_for_other_length()
  kWithSizes,   // of batch and sequence: they are the sizes of the result
};

struct Translation {
  std::string_view op;
  const char* type;  // of the ONNX operator; null if none is needed
  // Adds the nodes of a call to the graph, on which begin() was called for it, and returns the name
  // of the call's first result.
  std::string (*translate)(OnnxGraph& graph, const TracedCall& call, const char* type);
  Varies attrs_vary = Varies::kNot;
};

// The translation of an operation; null if there is none.
const Translation* find_translation(std::string_view op);

// The operations that have a translation, for messages: `add, avg_pool2d, ...`.
std::string translated_ops();

}  // namespace mezzo::interchange
