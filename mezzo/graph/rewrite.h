// Analyses and helpers for passes that change a program.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

bool is_cast(const Node& node);
// True for a call without an undecided paint: passes that fuse calls leave undecided ones alone.
// The second overload is for calls of one operation.
bool is_call(const Node& node);
bool is_call(const Node& node, const OpDef& op);
// True for a call of batch normalization, with or without a residual: by the statistics of its
// input, or by given ones.
bool is_training_norm(const Node& node);
bool is_norm_by_given(const Node& node);

// Tensors like the inputs and outputs of a call, without elements: for queries about the call.
class StandIns {
 public:
  StandIns(const Program& program, const Node& node);
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  Inputs inputs() const { return pointers_; }
  std::span<Tensor> outputs() { return outputs_; }

 private:
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::vector<const Tensor*> pointers_;  // to inputs_
};

std::size_t count_casts(const Program& program);
// True if one of the nodes [first, last) belongs to an update.
bool is_update_between(const Program& program, std::size_t first, std::size_t last);

// True if elements have the same layout: strides of sizes 1 do not matter.
bool same_layout(const ValueSpec& a, const ValueSpec& b);

// Removes the marked nodes and returns their number. No other node may read values that only these
// nodes make; `over` entries that refer to such values are cleared.
std::size_t erase_nodes(Program& program, const std::vector<bool>& marked);

// Which values share memory, and where their contents may change: host work changes tensors that
// exist between runs, and gradients that it reads. Which of them is not known, so all that it can
// reach count.
class MemoryUse {
 public:
  explicit MemoryUse(const Program& program);

  // The value that this one is a view of; itself if it is not a view.
  ValueId owner(ValueId value) const { return owners_[value]; }
  // True if host work may change the elements.
  bool may_change(ValueId value) const { return may_change_[owner(value)]; }
  // True if the program returns the value or a view of it.
  bool is_returned(ValueId value) const { return is_returned_[owner(value)]; }
  // The last node that reads the value or a view of it; 0 if there is none.
  std::size_t last_read(ValueId value) const { return last_read_[owner(value)]; }
  // The number of host work nodes before a node: if equal for two nodes, there is none between
  // them.
  std::size_t host_work_before(std::size_t node) const { return host_work_before_[node]; }
  // True if the value has the same contents at both nodes.
  bool is_same_at(ValueId value, std::size_t first, std::size_t second) const {
    return value == kNoValue || !may_change(value) ||
           !is_changed_between(value, first, second, host_work_before_);
  }
  // Like is_same_at(), for parameters: host work that can wait never changes them, because it
  // updates running statistics.
  bool is_same_parameter_at(ValueId value, std::size_t first, std::size_t second) const {
    return value == kNoValue || !may_change(value) ||
           !is_changed_between(value, first, second, work_in_place_before_);
  }

 private:
  // Host work that is known to change these owners and nothing else.
  struct Part {
    std::size_t node;
    std::vector<ValueId> changed;
  };

  void add_node(const Program& program, std::size_t i);
  void add_part(const Program& program, std::size_t i);
  bool is_changed_between(ValueId value, std::size_t first, std::size_t second,
                          const std::vector<std::size_t>& work_before) const;

  std::vector<ValueId> owners_;
  std::vector<bool> may_change_;
  std::vector<bool> is_returned_;
  std::vector<std::size_t> last_read_;
  std::vector<std::size_t> host_work_before_;
  std::vector<std::size_t> work_in_place_before_;  // without host work that can wait
  std::vector<Part> parts_;
};

// The makers and readers of values in the current program.
class Links {
 public:
  explicit Links(const Program& program);

  // The node that makes the value; kNoNode for inputs and states.
  std::size_t maker(ValueId value) const { return makers_[value]; }
  const std::vector<std::size_t>& readers(ValueId value) const { return readers_[value]; }
  // The node that makes the value if it is a call of that operation; else kNoNode.
  std::size_t maker(ValueId value, const OpDef& op) const;
  // True if this node is the only user of the value: it reads it once, no other node reads it, and
  // the program does not return it.
  bool is_only_for(ValueId value, std::size_t node) const {
    return !is_returned_[value] && readers_[value] == std::vector{node};
  }

 private:
  const Program& program_;
  std::vector<std::size_t> makers_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<bool> is_returned_;
};

}  // namespace mezzo::graph
