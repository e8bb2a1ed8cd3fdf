// NCCL, which is loaded by the first group of processes that exchanges memory of cards.
#pragma once

#include <nccl.h>

// Every function of NCCL that is called.
#define MEZZO_NCCL_FUNCTIONS(DO) \
  DO(ncclAllGather)              \
  DO(ncclBroadcast)              \
  DO(ncclCommAbort)              \
  DO(ncclCommDestroy)            \
  DO(ncclCommGetAsyncError)      \
  DO(ncclCommInitRank)           \
  DO(ncclGetErrorString)         \
  DO(ncclGetLastError)           \
  DO(ncclGetUniqueId)            \
  DO(ncclGroupEnd)               \
  DO(ncclGroupStart)             \
  DO(ncclRecv)                   \
  DO(ncclSend)

namespace mezzo::kernels::cuda {

// These functions, under their own names.
struct Nccl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands alone
#define MEZZO_MEMBER(name) decltype(&::name) name = nullptr;
  MEZZO_NCCL_FUNCTIONS(MEZZO_MEMBER)
#undef MEZZO_MEMBER
};

// As cublaslt_library() does.
const Nccl& nccl_library();

}  // namespace mezzo::kernels::cuda
