// kernel<<<grid, threads, shared, stream>>>(arguments...), as emulated_card.cmake writes it.
#pragma once

#include <cstddef>
#include <functional>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "tests/emulated_card/failure.h"

namespace mezzo::emulated_card {

// cudaErrorInvalidConfiguration for sizes that no GPU supports.
cudaError_t check_grid(dim3 blocks, dim3 threads);
// Sets the result of the next cudaGetLastError().
void set_last_error(cudaError_t error);
cudaError_t queue_kernel(dim3 blocks, dim3 threads, cudaStream_t stream,
                         std::function<void()> body);
// Ends the program if a kernel gets an address that a device cannot access.
void check_reachable(const void* data);

class Grid {
 public:
  Grid(dim3 blocks, dim3 threads, std::size_t shared, cudaStream_t stream)
      : blocks_(blocks), threads_(threads), stream_(stream) {
    if (shared != 0) give_up("shared memory that is sized by the launch is not emulated");
  }

  // Arguments are copied, as in a launch: what they point to must be in device memory.
  template <class Kernel, class... Args>
  void launch(const Kernel& kernel, const Args&... args) const {
    static_assert((std::is_trivially_copyable_v<Args> && ...), "arguments are copied as bytes");
    static_assert((sizeof(Args) + ... + 0) <= 4096, "a launch takes 4 kB of arguments");
    (check_argument(args), ...);
    set_last_error(
        queue_kernel(blocks_, threads_, stream_, [kernel, args...] { kernel(args...); }));
  }

 private:
  template <class T>
  static void check_argument(const T& argument) {
    if constexpr (std::is_pointer_v<T>) check_reachable(argument);
  }

  dim3 blocks_, threads_;
  cudaStream_t stream_;
};

}  // namespace mezzo::emulated_card
