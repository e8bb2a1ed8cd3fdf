// Errors of the CUDA run time as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include "mezzo/core/error.h"

namespace mezzo::kernels::cuda {

// Throws DeviceError with the call and the run time's own text unless `status` is success.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());  // or the next call would report it again
  fail<DeviceError>("cuda", call, " failed: ", cudaGetErrorName(status), ", ",
                    cudaGetErrorString(status));
}

// After a kernel's launch: throws DeviceError if it could not start. What goes wrong while it runs
// is reported by a later call that waits.
inline void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

}  // namespace mezzo::kernels::cuda

#define MEZZO_CUDA_CHECK(call) ::mezzo::kernels::cuda::check_cuda((call), #call)
