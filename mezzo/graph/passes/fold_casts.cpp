#include <algorithm>
#include <optional>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"

namespace mezzo::graph {
namespace {

// A value that can be read instead of a cast's result, and the first node that can then be removed.
struct Source {
  ValueId value;
  std::size_t first;
};

// True if `to` holds every value of `from`. (Subnormal bf16 numbers count as held, although a cast
// back makes them 0; without the cast they are kept.)
bool holds(DType to, DType from) {
  return is_floating(to) && is_floating(from) && promote(to, from) == to;
}

class Folder {
 public:
  explicit Folder(Program& program)
      : program_(program), makers_(makers(program)), memory_(program) {}

  // Removes the first redundant cast; returns false if there is none.
  bool fold_one() {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!is_cast(program_.nodes[i])) continue;
      const std::optional<Source> source = source_of(i);
      if (!source.has_value() || !can_replace(i, *source)) continue;
      replace(i, *source);
      return true;
    }
    return false;
  }

 private:
  ValueId result_of(std::size_t node) const { return program_.nodes[node].outputs[0]; }
  DType dtype_of(ValueId value) const { return program_.spec(value).dtype; }

  std::optional<Source> source_of(std::size_t i) const {
    const ValueId read = program_.nodes[i].inputs[0];
    const DType dtype = dtype_of(result_of(i));
    if (dtype_of(read) == dtype) return Source{read, i};
    const std::size_t maker = makers_[read];
    if (maker == kNoNode || !is_cast(program_.nodes[maker])) return std::nullopt;
    const ValueId origin = program_.nodes[maker].inputs[0];
    const bool is_lossless = dtype_of(origin) == dtype && holds(dtype_of(read), dtype);
    return is_lossless ? std::optional(Source{origin, maker}) : std::nullopt;
  }

  bool can_replace(std::size_t i, const Source& source) const {
    const ValueId result = result_of(i);
    // A cast also turns a view into a dense block.
    if (!same_layout(program_.spec(result), program_.spec(source.value))) return false;
    // Two values become one, so a change of either would change both.
    if (memory_.may_change(result)) return false;
    const bool is_own = program_.values[memory_.owner(source.value)].kind == ValueKind::kResult;
    if (memory_.is_returned(result) && (!is_own || memory_.is_returned(source.value))) return false;
    if (!memory_.may_change(source.value)) return true;
    return !memory_.is_returned(result) &&
           memory_.host_work_before(source.first) ==
               memory_.host_work_before(std::max(i, memory_.last_read(result)));
  }

  void replace(std::size_t i, const Source& source) {
    replace_uses(program_, result_of(i), source.value);
    std::vector<bool> is_gone(program_.nodes.size(), false);
    is_gone[i] = true;
    // The previous cast may have been made for this one only.
    const ValueId between = result_of(source.first);
    if (source.first != i && !memory_.is_returned(between)) {
      is_gone[source.first] = readers(program_)[between].size() == 1;
    }
    erase_nodes(program_, is_gone);
  }

  Program& program_;
  std::vector<std::size_t> makers_;
  MemoryUse memory_;
};

}  // namespace

std::size_t fold_casts(Program& program) {
  const std::size_t casts = count_casts(program);
  while (Folder(program).fold_one()) continue;
  return casts - count_casts(program);
}

}  // namespace mezzo::graph
