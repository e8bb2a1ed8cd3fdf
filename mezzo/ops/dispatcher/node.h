// The tape: one node per recorded operation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// One input of a recorded operation: where its gradient goes, and which tensor was saved.
struct NodeInput {
  Ref<Node> node;            // the operation that produced it, or null
  std::uint32_t output = 0;  // which output of `node`
  Ref<TensorImpl> leaf;      // a leaf that collects gradients, or null
  Shape shape;
  Format format = Format::kContiguous;
  DType dtype = DType::kF32;
  bool present = false;  // false for absent optional inputs
  Tensor saved;
  std::uint64_t version = 0;  // of `saved`, when it was saved

  bool needs_grad() const { return node || leaf; }
};

struct NodeOutput {
  TensorSpec spec;
  Tensor saved;               // without history: with it there would be a cycle
  std::uint64_t version = 0;  // of the output, when it was made
  bool is_kept = false;       // saved, here or as another node's input
  Tensor grad;                // accumulated while backward() runs
  Tensor other_grad;          // a second gradient that is not added yet: see OpDef::adds_grads
};

class Node final : public RefCounted {
 public:
  Node(const OpDef& op, const Attrs& attrs, std::size_t inputs, std::size_t outputs);
  ~Node() override;

  const OpDef& op() const { return op_; }
  const Attrs& attrs() const { return attrs_; }
  // Increases with every new node, so a node is always newer than the nodes it depends on.
  std::uint64_t sequence() const { return sequence_; }
  std::span<NodeInput> inputs() { return {inputs_.get(), input_count_}; }
  std::span<NodeOutput> outputs() { return {outputs_.data(), output_count_}; }
  // Data that the gradient function needs besides tensors; null for most operations.
  RefCounted* context() const { return context_.get(); }
  void set_context(Ref<RefCounted> context) { context_ = std::move(context); }
  bool is_released() const { return released_; }
  // Frees the saved tensors; backward() calls it unless the graph is retained.
  void release_saved();

 private:
  const OpDef& op_;
  Attrs attrs_;
  std::uint64_t sequence_;
  std::size_t input_count_;
  std::size_t output_count_;
  bool released_ = false;
  Ref<RefCounted> context_;
  std::unique_ptr<NodeInput[]> inputs_;
  std::array<NodeOutput, kMaxOutputs> outputs_;
};

// A lower bound of the next node's sequence().
std::uint64_t next_sequence();

// The node that produced the tensor, or null.
inline Node* node_of(const Tensor& tensor) {
  const AutogradMeta* meta = tensor.autograd_meta();
  return meta != nullptr ? static_cast<Node*>(meta->node.get()) : nullptr;
}

// Records a call: makes the node and attaches it to the outputs. Called by the dispatcher, and by
// the few operations that make their result themselves.
void record(const OpDef& op, const Attrs& attrs, Inputs inputs, std::span<Tensor> outputs,
            Ref<RefCounted> context = nullptr);

// The node whose gradient this thread is computing; null outside of backward passes.
const Node* differentiated_node();
// While it exists, differentiated_node() is this one.
class Differentiating {
 public:
  explicit Differentiating(const Node& node);

 private:
  Scoped<const Node*> scope_;
};

// True if recording is on and an input takes part in differentiation.
bool should_record(const OpDef& op, Inputs inputs);

}  // namespace mezzo
