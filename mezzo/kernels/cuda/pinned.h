// A pool of pinned host memory, which GPUs read directly.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

namespace mezzo::kernels::cuda {

// Pinning costs about as much as the copy that it speeds up, so blocks are kept. A block that is
// released while a copy reads it is handed out again only after that copy. Thread-safe.
class PinnedPool {
 public:
  PinnedPool() = default;
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // `bytes` of pinned memory; null for 0 bytes. Throws DeviceError if there is no more.
  void* allocate(std::size_t bytes);
  void release(void* block) noexcept;
  // True if [data, data + bytes) lies in a block of this pool.
  bool contains(const void* data, std::size_t bytes) const;
  // Notes that work already queued in the stream, of the current device, may read the block that
  // contains `data`.
  void note_use(const void* data, cudaStream_t stream);

 private:
  // The last use in a stream. Events belong to a device, and recording one again forgets its
  // earlier recording, so each stream has its own.
  struct Use {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
  };
  struct Block {
    std::size_t bytes = 0;
    std::vector<Use> uses{};
    bool is_free = false;
  };
  static bool is_read(const Block& block);
  const std::pair<const char* const, Block>* block_at(const void* data) const;

  mutable std::mutex mutex_;
  std::map<const char*, Block> blocks_;
};

}  // namespace mezzo::kernels::cuda
