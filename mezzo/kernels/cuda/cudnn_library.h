// cuDNN, which is loaded at its first use.
#pragma once

#include <cudnn.h>

// Every function of cuDNN that is called.
#define MEZZO_CUDNN_FUNCTIONS(DO)   \
  DO(cudnnBackendCreateDescriptor)  \
  DO(cudnnBackendDestroyDescriptor) \
  DO(cudnnBackendExecute)           \
  DO(cudnnBackendFinalize)          \
  DO(cudnnBackendGetAttribute)      \
  DO(cudnnBackendSetAttribute)      \
  DO(cudnnCreate)                   \
  DO(cudnnDestroy)                  \
  DO(cudnnGetErrorString)           \
  DO(cudnnGetLastErrorString)       \
  DO(cudnnSetStream)

namespace mezzo::kernels::cuda {

// These functions, under their own names.
struct Cudnn {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands alone
#define MEZZO_MEMBER(name) decltype(&::name) name = nullptr;
  MEZZO_CUDNN_FUNCTIONS(MEZZO_MEMBER)
#undef MEZZO_MEMBER
};

// As cublaslt_library() does. It loads that one first, which cuDNN needs and would look for by its
// name alone.
const Cudnn& cudnn_library();

}  // namespace mezzo::kernels::cuda
