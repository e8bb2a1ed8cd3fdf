// The caching allocator of a GPU's memory, which also counts every byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/device.h"

namespace mezzo::kernels::cuda {

// How a GPU's memory is allocated and freed. Tests use the host's memory instead.
struct DeviceMemory {
  // Null if there is no more memory; throws DeviceError if the GPU has failed.
  void* (*take)(std::size_t bytes) = nullptr;
  void (*give_back)(void* block) = nullptr;
  // Makes work that is queued in `waits` from now on wait for work that is already queued in
  // `done`.
  void (*order)(cudaStream_t waits, cudaStream_t done) = nullptr;
};
extern const DeviceMemory kCudaMemory;

// What to do if the GPU's memory is full: free cached blocks and try again, or fail at once.
enum class WhenFull : std::uint8_t { kTrim, kFail };

// Off: every block has exactly the requested size and is freed at once, which waits for the GPU.
// That is slow, but shows memory checkers every access past a block's end.
enum class Caching : std::uint8_t { kOn, kOff };

// A stream-ordered caching allocator. cudaMalloc and cudaFree wait for the whole GPU, so released
// blocks are kept. A block is handed out again at once to the stream that it was used in: work that
// is queued there later runs later. If another thread releases a block than the one that allocated
// it, the block's stream first waits for that thread's. Thread-safe.
class CudaAllocator {
 public:
  explicit CudaAllocator(Device device, const DeviceMemory& memory = kCudaMemory,
                         Caching caching = Caching::kOn)
      : device_(device), memory_(memory), caching_(caching) {}
  CudaAllocator(const CudaAllocator&) = delete;
  CudaAllocator& operator=(const CudaAllocator&) = delete;

  // `bytes` of memory, aligned to 256 bytes, for work in `stream`; null for 0 bytes. If the GPU has
  // no more memory after cached blocks were freed, throws DeviceError. It lists the largest blocks
  // in use and what they were allocated for (AllocationLabel).
  void* allocate(std::size_t bytes, cudaStream_t stream, WhenFull when_full = WhenFull::kTrim);
  // Releases a block after the work queued in `stream`, the calling thread's. Null is ignored.
  void release(void* block, std::size_t bytes, cudaStream_t stream) noexcept;

  // From now on release() ignores the block; only give_up() releases it.
  void keep(void* block);
  // Releases a block that was kept, after the work queued in the stream that it was allocated for.
  void give_up(void* block) noexcept;

  MemoryStats stats() const;
  void reset_peak();
  // Frees all cached blocks.
  void trim() noexcept;

 private:
  struct Live {
    std::size_t asked = 0;
    std::size_t size_class = 0;
    cudaStream_t stream = nullptr;
    bool is_kept = false;
    const char* label = nullptr;  // what it was allocated for
  };
  struct Pool {
    cudaStream_t stream = nullptr;
    std::unordered_map<std::size_t, std::vector<void*>> free;  // by size class
  };

  Pool& pool_of(cudaStream_t stream);
  void* take_cached(std::size_t size_class, cudaStream_t stream);
  void put_back(std::unordered_map<void*, Live>::iterator block) noexcept;
  void trim_locked() noexcept;
  std::string largest_blocks() const;

  Device device_;
  const DeviceMemory& memory_;
  Caching caching_;
  mutable std::mutex mutex_;
  std::vector<Pool> pools_;
  std::unordered_map<void*, Live> live_;
  MemoryStats stats_;
};

// The allocator of a GPU. MEZZO_CUDA_CACHE=0 turns caching off, 1 on. It is on by default, but off
// in builds with the address sanitizer, whose GPUs are emulated.
CudaAllocator& allocator_of(Device device);

}  // namespace mezzo::kernels::cuda
