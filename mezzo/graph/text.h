// The text form of programs, for people, tests and the command line.
//
//   program(x: f32[4, 8], labels: i64[4]) {
//     state fc.weight: f32[16, 8]
//     %0: bf16[4, 8] = cast(x) {dtype=bf16} @fc
//     %1: bf16[4, 16] = linear(%0, fc.weight, _) {f32_result=false} @fc [O2/bf16]
//     %2: bf16[4, 16] = relu(%1) over(%1) in bf16 because "it only chooses" #backward
//     host update(%2) #update
//     return %2
//   }
//
// The inputs are followed by the device, as in `program(x: f32[4]) on cuda:1 {`, unless it is the
// CPU. A type is followed by its layout if that is not row-major: `channels_last`, or `strides=[1,
// 4]`. A call is followed by these items, if they differ from the default: its attributes, the
// values that its results may overwrite, the module's path, the policy of the region around the
// call, the dtype that was chosen for it and the reason, and the phase.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "mezzo/graph/program.h"

namespace mezzo::graph {

// The names of values in a text: their own, or %0, %1, ... in order of appearance for those
// without.
class ValueNames {
 public:
  explicit ValueNames(const Program& program);

  std::string operator[](ValueId value) const;

 private:
  void note(const Program& program, ValueId value);

  std::unordered_map<ValueId, std::string> names_;
  int unnamed_ = 0;
};

// A text with escapes for quotes, here and in Graphviz's language.
std::string escaped(std::string_view text);

// The spec as text, as in `f32[4, 3, 8, 8] channels_last`.
std::string to_text(const ValueSpec& spec);
inline void append_text(std::string& out, const ValueSpec& spec) { out += to_text(spec); }
// A node, as in `%2: f32[4, 8] = relu(%1)`, and a whole program.
std::string to_text(const Program& program, const Node& node, const ValueNames& names);
std::string to_text(const Program& program);

// Parses the text of a program. States have no tensors and host calls no work, so the program can
// be changed and compared, but not run. Values are numbered as they appear. Throws ArgumentError
// that names the line.
Program parse_program(std::string_view text);

}  // namespace mezzo::graph
