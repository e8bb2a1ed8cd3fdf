// Program: a captured step, as a list of calls over values.
//
// Every value is made once: it is an input of the program, a tensor that exists between runs (a
// parameter, a buffer, a constant), or the result of one node. Nodes are in the order in which they
// run, so each reads only earlier values. Everything that a step does besides calls of operations
// is host work, which keeps its place among the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mezzo/amp/policy.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::graph {

// The index of a value in Program::values.
using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};  // an absent optional input

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
  // The size of the elements in memory if they are dense.
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
  std::string name{};  // for inputs and states; results may have none
  // The call that made it when the step was captured, which passes keep. Without an operation for
  // values that passes have added.
  ResultId made_by{};
  // Calls that the maker's kernel does on the way, first to last, without writing their results.
  std::vector<CallId> joined{};
  Tensor tensor{};  // for a state in a program that can run; undefined in a parsed program
};

using Phase = amp::StepPhase;

struct Node {
  const OpDef* op = nullptr;  // null: host work
  Attrs attrs{};
  std::vector<ValueId> inputs{};  // kNoValue for absent optional inputs
  std::vector<ValueId> outputs{};
  // Values that output i may overwrite (see call_over()), if nobody reads them later; kNoValue for
  // none. May be shorter than outputs.
  std::vector<ValueId> over{};
  Phase phase = Phase::kForward;
  // True for a cast that a call made of one of its operands, to give them a common dtype. If
  // precision is decided differently, it may not be needed.
  bool is_promotion = false;
  std::string path{};  // path of the module that made the call
  // The policy of the region around the call, for the pass that paints; null outside of regions,
  // and after casts were inserted.
  std::shared_ptr<const amp::Policy> policy{};
  // The decision of that pass: the dtype of the inputs that may be cast, and the reason. Empty: the
  // dtype of the inputs. Removed when casts are inserted.
  std::optional<DType> paint{};
  std::string reason{};

  // Host work: its name, its function, and the leaves whose gradients are the last leaves.size()
  // inputs. During the work they are the `grad` of the leaves.
  std::string host{};
  HostWork work{};
  HostWorkTime time = HostWorkTime::kInPlace;
  // The state of the thread around host work: whether calls are recorded, and how their inputs are
  // cast. Null: no casts.
  bool records_calls = true;
  std::shared_ptr<const PrecisionContext> region{};
  std::function<void()> prepare{};  // not null: the work only queues kernels
  std::vector<Tensor> leaves{};
  std::shared_ptr<const LeafWork> by_leaf{};  // not null: the work can be done in parts
  // True for one of these parts: it changes its leaves and nothing else that the program knows.
  bool is_part = false;

  bool is_host() const { return op == nullptr; }
  bool is_queued() const { return prepare != nullptr; }
};

struct Program {
  std::vector<Value> values{};
  std::vector<Node> nodes{};
  std::vector<ValueId> inputs{};
  // The results of a run; the last leaves.size() of them become the gradients of the leaves.
  std::vector<ValueId> outputs{};
  std::vector<Tensor> leaves{};
  // Leaves to whose gradients the step adds: a run must not find old ones.
  std::vector<Tensor> adds_to{};
  // The device of all inputs, states and results.
  Device device{};
  // How far a run advances default_generator(). Its position is put into the state `random_start`:
  // calls that draw random numbers read that as their last input, and their attributes hold
  // positions relative to it, with seed 0.
  std::uint64_t random_words = 0;
  ValueId random_start = kNoValue;  // no call draws any

  const ValueSpec& spec(ValueId value) const { return values[value].spec; }

  ValueId add_input(ValueSpec spec, std::string name);
  ValueId add_state(const Tensor& tensor, std::string name);
  ValueId add_state(ValueSpec spec, std::string name);
  ValueId add_result(ValueSpec spec);
};

// The node that makes each value, as an index into nodes; kNoNode for inputs and states.
inline constexpr std::size_t kNoNode = ~std::size_t{0};
std::vector<std::size_t> makers(const Program& program);
// For each value, the nodes that read it, in order, once for each input.
std::vector<std::vector<std::size_t>> readers(const Program& program);

// Notes that the node that made `between` makes `result` instead, for which it does both calls.
void join_calls(Program& program, ValueId between, ValueId result);

// Replaces all uses of `from`, by nodes and as an output of the program, by `to`.
void replace_uses(Program& program, ValueId from, ValueId to);

// A tensor with that geometry but without elements, for shape inference: reading its elements
// throws.
Tensor stand_in(const ValueSpec& spec, Device device = {});
// Like the other stand_in(), but reading its elements fills them from `contents`.
Tensor stand_in(const ValueSpec& spec, Device device, Ref<LazyContents> contents);

}  // namespace mezzo::graph
