// The registered operations in words: for `mezzo ops` and docs/ops.md.
#pragma once

#include <string>
#include <vector>

namespace mezzo {

struct OpDescription {
  std::string name;
  std::string doc;
  std::string bf16;  // precision class per lower dtype
  std::string f16;
  std::string reason;
  bool differentiable = false;
  std::string kernels;  // on the CPU, in order of preference; `view` for views
};

// All operations by name.
std::vector<OpDescription> describe_ops();

// docs/ops.md.
std::string ops_as_markdown();

}  // namespace mezzo
