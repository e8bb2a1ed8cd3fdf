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
  // In order of preference; `view` for views. Those for cards are empty where CUDA is not built.
  std::string cpu_kernels;
  std::string cuda_kernels;
};

// All operations by name.
std::vector<OpDescription> describe_ops();

// docs/ops.md, which is the same whether CUDA is built or not: it lists the kernels for the CPU.
std::string ops_as_markdown();

}  // namespace mezzo
