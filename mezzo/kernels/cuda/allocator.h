// Memory of a card: blocks are kept and handed out again, and every byte is counted.
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

// How a card's memory is taken and given back; tests have none and take the host's.
struct DeviceMemory {
  // Null if there is no more; throws DeviceError if the card has failed.
  void* (*take)(std::size_t bytes) = nullptr;
  void (*give_back)(void* block) = nullptr;
  // Makes what is queued in `waits` from now on wait for what is queued in `done` by now.
  void (*order)(cudaStream_t waits, cudaStream_t done) = nullptr;
};
extern const DeviceMemory kCudaMemory;

// What to do when the card is full: return what is cached to it and try again, or fail at once.
enum class WhenFull : std::uint8_t { kTrim, kFail };

// Off: every block is as long as was asked for, and goes back to the card at once, which waits for
// it. That is slow, and shows tools that watch memory every access past a block's end.
enum class Caching : std::uint8_t { kOn, kOff };

// A caching allocator in the order of streams. cudaMalloc and cudaFree wait for the whole card; a
// block that is given back is kept instead, and handed out again at once to the stream it was used
// in: work that is queued there later runs later. Given back by another thread than the one that
// asked for it, its stream first waits for that thread's. Thread-safe.
class CudaAllocator {
 public:
  explicit CudaAllocator(Device device, const DeviceMemory& memory = kCudaMemory,
                         Caching caching = Caching::kOn)
      : device_(device), memory_(memory), caching_(caching) {}
  CudaAllocator(const CudaAllocator&) = delete;
  CudaAllocator& operator=(const CudaAllocator&) = delete;

  // `bytes` of memory, aligned to 256 bytes, for work in `stream`; null for 0 bytes. Throws
  // DeviceError, with the largest blocks in use and what they were asked for (AllocationLabel),
  // when the card has no more after giving back what is cached.
  void* allocate(std::size_t bytes, cudaStream_t stream, WhenFull when_full = WhenFull::kTrim);
  // Gives a block back after the work queued in `stream`, the calling thread's. Null is ignored.
  void release(void* block, std::size_t bytes, cudaStream_t stream) noexcept;

  // From now on release() leaves the block alone; only give_up() gives it back.
  void keep(void* block);
  // Gives back a block that was kept, after the work queued in the stream that it was asked for.
  void give_up(void* block) noexcept;

  MemoryStats stats() const;
  void reset_peak();
  // Returns all cached blocks to the card.
  void trim() noexcept;

 private:
  struct Live {
    std::size_t asked = 0;
    std::size_t size_class = 0;
    cudaStream_t stream = nullptr;
    bool is_kept = false;
    const char* label = nullptr;  // what it was asked for
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

// The allocator of a card. MEZZO_CUDA_CACHE=0 turns caching off, 1 on; the default is on, and off
// in builds with the address sanitizer, whose cards are emulated.
CudaAllocator& allocator_of(Device device);

}  // namespace mezzo::kernels::cuda
