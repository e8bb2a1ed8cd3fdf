#include "mezzo/kernels/cuda/recording_memory.h"

namespace mezzo::kernels::cuda {

RecordingMemory::~RecordingMemory() {
  for (const Block& block : blocks_) allocator_.give_up(block.data);
}

void* RecordingMemory::take(std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  Block* smallest = nullptr;
  for (Block& block : blocks_) {
    const bool fits = block.is_free && block.bytes >= bytes;
    if (fits && (smallest == nullptr || block.bytes < smallest->bytes)) smallest = &block;
  }
  if (smallest != nullptr) {
    smallest->is_free = false;
    return smallest->data;
  }
  blocks_.reserve(blocks_.size() + 1);
  void* data = allocator_.allocate(bytes, stream, WhenFull::kFail);
  allocator_.keep(data);
  blocks_.push_back({data, bytes, false});
  return data;
}

bool RecordingMemory::put_back(const void* block) noexcept {
  for (Block& own : blocks_) {
    if (own.data != block) continue;
    own.is_free = true;
    return true;
  }
  return false;
}

}  // namespace mezzo::kernels::cuda
