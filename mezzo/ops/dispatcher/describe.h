// The registered operations in words: for `mezzo ops` and docs/ops.md.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "mezzo/core/dtype.h"

namespace mezzo {

struct OpDescription {
  std::string name;
  std::string doc;
  std::array<std::string, kLowerDTypes.size()> precision;  // its class for each lower dtype
  std::string reason;
  bool differentiable = false;
  // In order of preference; `view` for views. Those for cards are empty where CUDA is not built.
  std::string cpu_kernels;
  std::string cuda_kernels;
};

// All operations by name.
std::vector<OpDescription> describe_ops();

// docs/ops.md, which is the same whether CUDA is built or not: it lists the kernels for the CPU.
std::string ops_as_markdown();

}  // namespace mezzo
