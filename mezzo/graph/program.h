// Program: a captured step, as a list of calls over values.
//
// Every value is made once: it is an input of the program, a tensor that exists between runs (a
// parameter, a buffer, a constant), or the result of one node. Nodes are in the order in which they
// run, so each reads only what stands before it. What a step does besides calls of operations is
// host work, which keeps its place among the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/amp/train_one_step.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::graph {

// The place of a value in Program::values.
using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};  // an optional input that is not given

struct ValueSpec {
  Shape shape{};
  DType dtype = DType::kF32;
  Strides strides{};  // in elements; those of views need not be dense

  static ValueSpec of(const Tensor& tensor) {
    return {tensor.shape(), tensor.dtype(), tensor.strides()};
  }
  static ValueSpec dense(const Shape& shape, DType dtype, Format format = Format::kContiguous) {
    return {shape, dtype, strides_for(shape, format)};
  }
  // What the elements take in memory if they are dense.
  std::size_t bytes() const { return static_cast<std::size_t>(shape.numel()) * size_of(dtype); }
  bool operator==(const ValueSpec&) const = default;
};

enum class ValueKind : std::uint8_t {
  kInput,   // an argument of each run
  kState,   // a tensor that exists between runs and may change there
  kResult,  // of a node
};

struct Value {
  ValueKind kind = ValueKind::kResult;
  ValueSpec spec{};
  std::string name{};  // of inputs and states; results may be without
  Tensor tensor{};     // of a state in a program that can run; undefined in one that was parsed
};

using Phase = amp::StepPhase;

struct Node {
  const OpDef* op = nullptr;  // null: host work
  Attrs attrs{};
  std::vector<ValueId> inputs{};  // kNoValue for absent optional inputs
  std::vector<ValueId> outputs{};
  // Values that output i may be written over (see call_over()), as far as nobody reads them later;
  // kNoValue for none. May be shorter than outputs.
  std::vector<ValueId> over{};
  Phase phase = Phase::kForward;
  // True for a cast that a call made of one of its operands, so that they have a common dtype:
  // where precision is decided otherwise, there may be none.
  bool is_promotion = false;
  std::string path{};  // of the module that made the call
  // What the region around the call said of its precision, for the pass that paints; null outside
  // of regions, and once the casts are there.
  std::shared_ptr<const amp::Policy> policy{};
  // What that pass decided: the dtype of the inputs that may be cast, and why. None: takes what
  // comes. Forgotten once the casts are there.
  std::optional<DType> paint{};
  std::string reason{};

  // Host work: what it is called, what it does, and the leaves whose gradients are the last
  // leaves.size() inputs; while it works they are the gradients of the leaves.
  std::string host{};
  HostWork work{};
  HostWorkTime time = HostWorkTime::kInPlace;
  // What the thread was about to do with calls: record them, and cast their inputs. Null: no casts.
  bool records_calls = true;
  std::shared_ptr<const PrecisionContext> region{};
  std::function<void()> prepare{};  // not null: what it does only queues work
  std::vector<Tensor> leaves{};
  std::shared_ptr<const LeafWork> by_leaf{};  // not null: can be done in parts
  // One of these parts: changes its leaves and nothing else that the program knows.
  bool is_part = false;

  bool is_host() const { return op == nullptr; }
  bool is_queued() const { return prepare != nullptr; }
};

struct Program {
  std::vector<Value> values{};
  std::vector<Node> nodes{};
  std::vector<ValueId> inputs{};
  // What a run gives back; the last leaves.size() of them become the gradients of the leaves.
  std::vector<ValueId> outputs{};
  std::vector<Tensor> leaves{};
  // Leaves to whose gradients the step adds: a run must not find any.
  std::vector<Tensor> adds_to{};
  // Where all of it lies and runs: inputs, states and results.
  Device device{};
  // How far a run moves default_generator(), from the place that it then puts into the state
  // `random_start`: calls that draw random numbers read that as their last input, and their
  // attributes hold positions relative to it, with seed 0.
  std::uint64_t random_words = 0;
  ValueId random_start = kNoValue;  // none draws any

  const ValueSpec& spec(ValueId value) const { return values[value].spec; }

  ValueId add_input(ValueSpec spec, std::string name);
  ValueId add_state(const Tensor& tensor, std::string name);
  ValueId add_state(ValueSpec spec, std::string name);
  ValueId add_result(ValueSpec spec);
};

// The node that makes each value, as an index into nodes; kNoNode for inputs and states.
inline constexpr std::size_t kNoNode = ~std::size_t{0};
std::vector<std::size_t> makers(const Program& program);
// For each value, the nodes that read it, in order, each once per input that it is.
std::vector<std::vector<std::size_t>> readers(const Program& program);

// Makes every reader of `from` read `to` instead, and the program return it.
void replace_uses(Program& program, ValueId from, ValueId to);

// A tensor with that geometry and without elements, for shape inference: asking for its elements
// throws.
Tensor stand_in(const ValueSpec& spec, Device device = {});
// The same; asking for its elements does what `contents` does.
Tensor stand_in(const ValueSpec& spec, Device device, Ref<LazyContents> contents);

}  // namespace mezzo::graph
