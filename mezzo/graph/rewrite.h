// What passes need to know before they change a program, and to do it.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

bool is_cast(const Node& node);
std::size_t count_casts(const Program& program);

// True if elements lie at the same places: strides of sizes 1 do not matter.
bool same_layout(const ValueSpec& a, const ValueSpec& b);

// Removes the nodes that are marked. Nobody may read their results any more; what was to be written
// over them is not.
void erase_nodes(Program& program, const std::vector<bool>& marked);

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

 private:
  void add_node(const Program& program, std::size_t i);

  std::vector<ValueId> owners_;
  std::vector<bool> may_change_;
  std::vector<bool> is_returned_;
  std::vector<std::size_t> last_read_;
  std::vector<std::size_t> host_work_before_;
};

}  // namespace mezzo::graph
