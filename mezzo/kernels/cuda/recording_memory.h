// The memory that recorded work needs while it runs.
#pragma once

#include <cstddef>
#include <vector>

#include <cuda_runtime_api.h>

#include "mezzo/core/ref.h"
#include "mezzo/kernels/cuda/allocator.h"

namespace mezzo::kernels::cuda {

// Blocks that keep their address as long as recordings refer to them. They are reused within a
// recording, and from one to the next, since all are launched one after the other.
class RecordingMemory final : public RefCounted {
 public:
  explicit RecordingMemory(CudaAllocator& allocator) : allocator_(allocator) {}
  ~RecordingMemory() override;

  // Throws DeviceError if the GPU has no more memory. Cached blocks are not freed then, since that
  // is impossible while work is recorded.
  void* take(std::size_t bytes, cudaStream_t stream);
  // False if the block does not belong to this memory.
  bool put_back(const void* block) noexcept;

 private:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
    bool is_free = false;
  };

  CudaAllocator& allocator_;
  std::vector<Block> blocks_;
};

}  // namespace mezzo::kernels::cuda
