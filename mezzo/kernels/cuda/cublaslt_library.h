// cuBLASLt, which is loaded at its first use.
#pragma once

#include <cublasLt.h>

// Every function of cuBLASLt that is called.
#define MEZZO_CUBLASLT_FUNCTIONS(DO)       \
  DO(cublasLtCreate)                       \
  DO(cublasLtGetStatusString)              \
  DO(cublasLtMatmul)                       \
  DO(cublasLtMatmulAlgoGetHeuristic)       \
  DO(cublasLtMatmulDescCreate)             \
  DO(cublasLtMatmulDescDestroy)            \
  DO(cublasLtMatmulDescSetAttribute)       \
  DO(cublasLtMatmulPreferenceCreate)       \
  DO(cublasLtMatmulPreferenceDestroy)      \
  DO(cublasLtMatmulPreferenceSetAttribute) \
  DO(cublasLtMatrixLayoutCreate)           \
  DO(cublasLtMatrixLayoutDestroy)          \
  DO(cublasLtMatrixLayoutSetAttribute)

namespace mezzo::kernels::cuda {

// These functions, under their own names.
struct CublasLt {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands alone
#define MEZZO_MEMBER(name) decltype(&::name) name = nullptr;
  MEZZO_CUBLASLT_FUNCTIONS(MEZZO_MEMBER)
#undef MEZZO_MEMBER
};

// The library of this process, loaded by the first thread that asks. Throws DeviceError if it is
// not installed or lacks a function; a later call tries again.
const CublasLt& cublaslt_library();

}  // namespace mezzo::kernels::cuda
