#include "mezzo/kernels/cuda/pinned.h"

#include <algorithm>
#include <bit>

#include "mezzo/kernels/cuda/check.h"

namespace mezzo::kernels::cuda {

void* PinnedPool::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // Powers of two: a run uses few sizes, and a block then serves most of the smaller ones.
  bytes = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  const std::lock_guard lock(mutex_);
  for (auto& [data, block] : blocks_) {
    if (!block.is_free || block.bytes != bytes || is_read(block)) continue;
    block.is_free = false;
    return const_cast<char*>(data);
  }
  void* fresh = nullptr;
  MEZZO_CUDA_CHECK(cudaMallocHost(&fresh, bytes));
  blocks_[static_cast<const char*>(fresh)] = {bytes, {}, false};
  return fresh;
}

// True while a copy that reads the block is not done.
bool PinnedPool::is_read(const Block& block) {
  for (const Use& use : block.uses) {
    if (cudaEventQuery(use.done) == cudaSuccess) continue;
    static_cast<void>(cudaGetLastError());  // "not ready" would look like the next call's failure
    return true;
  }
  return false;
}

void PinnedPool::release(void* block) noexcept {
  if (block == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(static_cast<const char*>(block));
  if (found != blocks_.end()) found->second.is_free = true;
}

const std::pair<const char* const, PinnedPool::Block>* PinnedPool::block_at(
    const void* data) const {
  const auto* byte = static_cast<const char*>(data);
  auto found = blocks_.upper_bound(byte);
  if (found == blocks_.begin()) return nullptr;
  --found;
  return byte < found->first + found->second.bytes ? &*found : nullptr;
}

bool PinnedPool::contains(const void* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* entry = block_at(data);
  return entry != nullptr &&
         static_cast<const char*>(data) + bytes <= entry->first + entry->second.bytes;
}

void PinnedPool::note_use(const void* data, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto* entry = block_at(data);
  if (entry == nullptr) return;
  std::vector<Use>& uses = blocks_[entry->first].uses;
  auto use = std::ranges::find(uses, stream, &Use::stream);
  if (use == uses.end()) {
    cudaEvent_t done = nullptr;
    MEZZO_CUDA_CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    use = uses.insert(uses.end(), {stream, done});
  }
  MEZZO_CUDA_CHECK(cudaEventRecord(use->done, stream));
}

}  // namespace mezzo::kernels::cuda
