// The emulated card's cuBLASLt and cuDNN, in the place of those that are loaded.
#include "mezzo/kernels/cuda/cublaslt_library.h"
#include "mezzo/kernels/cuda/cudnn_library.h"

#define MEZZO_ADDRESS(function) .function = &::function,

namespace mezzo::kernels::cuda {

const CublasLt& cublaslt_library() {
  static constexpr CublasLt kLibrary = {MEZZO_CUBLASLT_FUNCTIONS(MEZZO_ADDRESS)};
  return kLibrary;
}

const Cudnn& cudnn_library() {
  static constexpr Cudnn kLibrary = {MEZZO_CUDNN_FUNCTIONS(MEZZO_ADDRESS)};
  return kLibrary;
}

}  // namespace mezzo::kernels::cuda
