#include "mezzo/kernels/cuda/nccl_library.h"

#include "mezzo/core/error.h"
#include "mezzo/core/shared_library.h"

namespace mezzo::kernels::cuda {
namespace {

SharedLibrary open_nccl() {
  return SharedLibrary(
      {.op = "cuda",
       .title = "NCCL",
       .name = concat("libnccl.so.", NCCL_MAJOR),
       .folder = MEZZO_NCCL_FOLDER,
       .advice = concat("Install NCCL ", NCCL_MAJOR, ".", NCCL_MINOR,
                        " or later, or name the folder that holds it in LD_LIBRARY_PATH")});
}

#define MEZZO_FIND(function) .function = library.find<decltype(&::function)>(#function),

Nccl load_nccl() {
  const SharedLibrary library = open_nccl();
  return {MEZZO_NCCL_FUNCTIONS(MEZZO_FIND)};
}

#undef MEZZO_FIND

}  // namespace

const Nccl& nccl_library() {
  static const Nccl library = load_nccl();
  return library;
}

}  // namespace mezzo::kernels::cuda
