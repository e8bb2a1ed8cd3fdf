// Reports the libraries and instruction sets that kernels use.
#pragma once

#include <string>

namespace mezzo {

struct BackendInfo {
  std::string onednn_version;
  std::string onednn_isa;     // the instruction set that oneDNN generates code for
  std::string vector_target;  // the instruction set that mezzo's own loops run on
};

BackendInfo backend_info();

}  // namespace mezzo
