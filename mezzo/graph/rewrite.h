// What passes need to know before they change a program, and to do it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

bool is_cast(const Node& node);
// True for a call with nothing left to decide: what is to be painted is left alone by passes that
// make one call of several. The second form: for one of that operation.
bool is_call(const Node& node);
bool is_call(const Node& node, const OpDef& op);
// True for a call of batch normalization, with a residual or without: by the statistics of what it
// reads, or by given ones.
bool is_training_norm(const Node& node);
bool is_norm_by_given(const Node& node);

// Tensors like those that a call reads and makes, without elements: for asking about the call.
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

// True if elements lie at the same places: strides of sizes 1 do not matter.
bool same_layout(const ValueSpec& a, const ValueSpec& b);

// Removes the nodes that are marked, and returns how many. Nobody may read what they alone have
// made; what was to be written over that is not.
std::size_t erase_nodes(Program& program, const std::vector<bool>& marked);

// Which values lie in the same memory, and where that may change: host work changes tensors that
// exist between runs, and gradients that it reads. It is not known which, so all that it can reach
// counts.
class MemoryUse {
 public:
  explicit MemoryUse(const Program& program);

  // The value that this one is a view of; itself if it is none.
  ValueId owner(ValueId value) const { return owners_[value]; }
  // True if host work may change the elements.
  bool may_change(ValueId value) const { return may_change_[owner(value)]; }
  // True if the program returns the value or a view of it.
  bool is_returned(ValueId value) const { return is_returned_[owner(value)]; }
  // The last node that reads the value or a view of it; 0 if there is none.
  std::size_t last_read(ValueId value) const { return last_read_[owner(value)]; }
  // How much host work there is before a node: if equal for two, none is between them.
  std::size_t host_work_before(std::size_t node) const { return host_work_before_[node]; }
  // True if two nodes that read the value find the same numbers.
  bool is_same_at(ValueId value, std::size_t first, std::size_t second) const {
    return value == kNoValue || !may_change(value) ||
           !is_changed_between(value, first, second, host_work_before_);
  }
  // The same for a value of which it is known that no host work changes it that can wait: such work
  // moves running statistics on.
  bool is_same_parameter_at(ValueId value, std::size_t first, std::size_t second) const {
    return value == kNoValue || !may_change(value) ||
           !is_changed_between(value, first, second, work_in_place_before_);
  }

 private:
  // Host work of which it is known what it changes: nothing but these owners.
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
  std::vector<std::size_t> work_in_place_before_;  // but for host work that can wait
  std::vector<Part> parts_;
};

// Who makes and who reads the values of a program as it is at the moment.
class Links {
 public:
  explicit Links(const Program& program);

  // The node that makes the value; kNoNode for inputs and states.
  std::size_t maker(ValueId value) const { return makers_[value]; }
  const std::vector<std::size_t>& readers(ValueId value) const { return readers_[value]; }
  // The node that makes the value if it is a call of that operation; else kNoNode.
  std::size_t maker(ValueId value, const OpDef& op) const;
  // True if this call is all that needs the value: one reading of it, by no other node, and the
  // program does not return it.
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
