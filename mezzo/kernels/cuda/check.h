// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include "mezzo/core/error.h"

namespace mezzo::kernels::cuda {

// Throws DeviceError with the call and the runtime's own text unless `status` is success.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());  // or the next call would report it again
  fail<DeviceError>("cuda", call, " failed: ", cudaGetErrorName(status), ", ",
                    cudaGetErrorString(status));
}

// Call after a kernel launch: throws DeviceError if the kernel could not start. An error while it
// runs is reported by a later call that waits.
inline void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

}  // namespace mezzo::kernels::cuda

#define MEZZO_CUDA_CHECK(call) ::mezzo::kernels::cuda::check_cuda((call), #call)
