// A fake device for tests of allocators.
#pragma once

#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "mezzo/kernels/cuda/allocator.h"

namespace mezzo::kernels::cuda {

// A device with a million bytes, whose memory is the host's.
inline constexpr std::size_t kRoom = 1'000'000;
inline std::size_t taken = 0;
inline int fresh = 0;
inline std::set<void*> blocks;
inline std::vector<std::pair<cudaStream_t, cudaStream_t>> ordered;

inline void* take(std::size_t bytes) {
  if (taken + bytes > kRoom) return nullptr;
  taken += bytes;
  ++fresh;
  auto* block = static_cast<std::size_t*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
  block[0] = bytes;
  blocks.insert(block);
  return block;
}
inline void give_back(void* block) {
  taken -= static_cast<std::size_t*>(block)[0];
  blocks.erase(block);
  std::free(block);
}
inline void order(cudaStream_t waits, cudaStream_t done) { ordered.emplace_back(waits, done); }

inline constexpr DeviceMemory kFake{take, give_back, order};
inline cudaStream_t stream(std::uintptr_t number) { return reinterpret_cast<cudaStream_t>(number); }

inline void forget_card() {
  while (!blocks.empty()) give_back(*blocks.begin());
  taken = 0;
  fresh = 0;
  ordered.clear();
}

}  // namespace mezzo::kernels::cuda
