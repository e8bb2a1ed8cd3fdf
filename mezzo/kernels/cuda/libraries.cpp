// Loads cuBLASLt and cuDNN. They take 0.14 s and 200 MB, which only a process that uses a card
// shall pay.
#include "mezzo/core/error.h"
#include "mezzo/core/shared_library.h"
#include "mezzo/kernels/cuda/cublaslt_library.h"
#include "mezzo/kernels/cuda/cudnn_library.h"

namespace mezzo::kernels::cuda {
namespace {

// A library of the same first number as its header: another one may have other functions.
SharedLibrary open_cublaslt() {
  return SharedLibrary({.op = "cuda",
                        .title = "cuBLASLt",
                        .name = concat("libcublasLt.so.", CUBLAS_VER_MAJOR),
                        .folder = MEZZO_CUBLASLT_FOLDER,
                        .advice = concat("Install cuBLASLt ", CUBLAS_VER_MAJOR,
                                         ", or name the folder that holds it in LD_LIBRARY_PATH")});
}

SharedLibrary open_cudnn() {
  return SharedLibrary(
      {.op = "cuda",
       .title = "cuDNN",
       .name = concat("libcudnn.so.", CUDNN_MAJOR),
       .folder = MEZZO_CUDNN_FOLDER,
       .advice = concat("Install cuDNN ", CUDNN_MAJOR, ".", CUDNN_MINOR,
                        " or later for this CUDA, or name the folder that holds it "
                        "in LD_LIBRARY_PATH")});
}

#define MEZZO_FIND(function) .function = library.find<decltype(&::function)>(#function),

CublasLt load_cublaslt() {
  const SharedLibrary library = open_cublaslt();
  return {MEZZO_CUBLASLT_FUNCTIONS(MEZZO_FIND)};
}

Cudnn load_cudnn() {
  static_cast<void>(cublaslt_library());
  const SharedLibrary library = open_cudnn();
  return {MEZZO_CUDNN_FUNCTIONS(MEZZO_FIND)};
}

#undef MEZZO_FIND

}  // namespace

const CublasLt& cublaslt_library() {
  static const CublasLt library = load_cublaslt();
  return library;
}

const Cudnn& cudnn_library() {
  static const Cudnn library = load_cudnn();
  return library;
}

}  // namespace mezzo::kernels::cuda
