// Describes the registered operations, for `mezzo ops` and docs/ops.md.
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
  // In order of preference; `view` for views. Without CUDA in the build, cuda_kernels is empty.
  std::string cpu_kernels;
  std::string cuda_kernels;
};

// All operations, sorted by name.
std::vector<OpDescription> describe_ops();

// The text of docs/ops.md. It lists CPU kernels only, so that it is the same with and without CUDA.
std::string ops_as_markdown();

}  // namespace mezzo
