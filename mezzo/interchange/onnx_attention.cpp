#include "mezzo/interchange/onnx_attention.h"

#include <limits>
#include <numeric>
#include <vector>

#include "mezzo/ops/attention_attrs.h"

namespace mezzo::interchange {
namespace {

using In = AttentionInput;
using Sizes = std::vector<std::int64_t>;

std::string permuted(OnnxGraph& graph, const std::string& x, const Sizes& axes) {
  return graph.add("Transpose", {x}).set("perm", axes).result();
}

std::string reshaped(OnnxGraph& graph, const std::string& x, const Sizes& shape) {
  return graph.add("Reshape", {x, graph.constant("shape", shape)}).result();
}

// A copy of each head of x [b, h_kv, m, n] for every head of q that shares it. One of m and n is
// given; the other is 0, since the number of keys may be open.
std::string repeated_heads(OnnxGraph& graph, const std::string& x, const AttentionSizes& sizes,
                           std::int64_t m, std::int64_t n) {
  if (sizes.group() == 1) return x;
  const auto open = [](std::int64_t size) { return size == 0 ? -1 : size; };
  // A size of 0 keeps that of the same axis, -1 takes the rest; a size of 1 in Expand keeps it,
  // too.
  const std::string apart = reshaped(graph, x, {0, sizes.key_heads, 1, open(m), open(n)});
  const Sizes copies{1, sizes.key_heads, sizes.group(), 1, 1};
  const std::string all = graph.add("Expand", {apart, graph.constant("shape", copies)}).result();
  return reshaped(graph, all, {0, sizes.heads, open(m), open(n)});
}

// The same as seen_keys(), for as many queries and keys as there are when the graph runs.
std::string seen_keys_of_any(OnnxGraph& graph) {
  const std::string queries = graph.size(In::kQ, 1);
  const std::string keys = graph.size(In::kK, 1);
  const std::string one = graph.constant("one", std::int64_t{1});
  const auto range = [&](const std::string& first) {
    return graph.add("Range", {first, keys, one}).result();
  };
  const std::string last = range(graph.add("Sub", {keys, queries}).result());
  const std::string rows =
      graph.add("Unsqueeze", {last, graph.constant("axes", Sizes{1})}).result();
  const std::string all = range(graph.constant("none", std::int64_t{0}));
  return graph.add("LessOrEqual", {all, rows}).result();
}

// Which keys a query sees, bool [t, s], for causal attention.
std::string seen_keys(OnnxGraph& graph, const AttentionSizes& sizes) {
  graph.check_not_batch(In::kQ, 1);
  graph.check_not_batch(In::kK, 1);
  if (graph.is_open(In::kQ, 1) || graph.is_open(In::kK, 1)) return seen_keys_of_any(graph);
  Sizes keys(static_cast<std::size_t>(sizes.keys));
  std::iota(keys.begin(), keys.end(), 0);
  Sizes last(static_cast<std::size_t>(sizes.queries));  // the last key that each query sees
  std::iota(last.begin(), last.end(), sizes.keys - sizes.queries);
  const std::string rows = reshaped(graph, graph.constant("last", last), {sizes.queries, 1});
  return graph.add("LessOrEqual", {graph.constant("keys", keys), rows}).result();
}

std::string number(OnnxGraph& graph, float value) {
  return graph.constant("number", Shape{}, value);
}

// Scores that take part, as bool; empty if all do.
std::string visible(OnnxGraph& graph, const TracedCall& call, const AttentionSizes& sizes) {
  std::string seen;
  if (call.attrs.as<AttentionAttrs>().causal) seen = seen_keys(graph, sizes);
  if (!call.inputs[In::kMask].defined()) return seen;
  std::string open = graph.input(In::kMask);
  if (call.inputs[In::kMask].dtype() != DType::kBool) {
    const std::string lowest = number(graph, std::numeric_limits<float>::lowest());
    open = graph.add("GreaterOrEqual", {open, lowest}).result();
  }
  return seen.empty() ? open : graph.add("And", {open, seen}).result();
}

}  // namespace

std::string attention(OnnxGraph& graph, const TracedCall& call, const char* /*type*/) {
  const auto& attrs = call.attrs.as<AttentionAttrs>();
  const AttentionSizes sizes(call.inputs[In::kQ].shape(), call.inputs[In::kK].shape(),
                             call.inputs[In::kV].shape());
  const std::string q = permuted(graph, graph.input(In::kQ), {0, 2, 1, 3});
  const std::string k = permuted(graph, graph.input(In::kK), {0, 2, 3, 1});
  const std::string v = permuted(graph, graph.input(In::kV), {0, 2, 1, 3});
  const std::string keys = repeated_heads(graph, k, sizes, sizes.features, 0);
  std::string scores = graph.add("MatMul", {q, keys}).result();
  scores = graph.add("Mul", {scores, number(graph, static_cast<float>(attrs.scale))}).result();
  const Tensor& mask = call.inputs[In::kMask];
  if (mask.defined() && mask.dtype() != DType::kBool) {
    scores = graph.add("Add", {scores, graph.input(In::kMask)}).result();
  }
  const std::string seen = visible(graph, call, sizes);
  // A finite score, and a probability of 0 in the end: a query that sees no key would be NaN.
  if (!seen.empty()) scores = graph.add("Where", {seen, scores, number(graph, -1e38F)}).result();
  std::string all = graph.add("Softmax", {scores}).set("axis", std::int64_t{-1}).result();
  if (!seen.empty()) all = graph.add("Where", {seen, all, number(graph, 0)}).result();
  const std::string values = repeated_heads(graph, v, sizes, 0, sizes.values);
  return permuted(graph, graph.add("MatMul", {all, values}).result(), {0, 2, 1, 3});
}

}  // namespace mezzo::interchange
