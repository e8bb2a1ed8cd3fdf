// The memory of the emulated card, and the host's pinned memory.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace mezzo::emulated_card {

// While it exists, host instructions can access device memory. Otherwise they end the program with
// a segmentation fault, as on a machine with a real GPU. In sanitized builds this does not apply:
// there every block is host memory, so that accesses past its end are found.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

inline constexpr std::size_t kRoom = 4UL << 30U;  // total device memory in bytes

// The free device memory, without what other programs are said to use.
std::size_t free_bytes();
void set_used_by_others(std::size_t bytes);

// Null if there is not enough memory. The block is filled with ones, so that reading it before
// writing gives NaNs.
void* take_memory(std::size_t bytes);
void* take_pinned(std::size_t bytes);
// False if no such block is allocated.
bool give_back_memory(void* block);

// The kind of memory at an address; cudaMemoryTypeUnregistered for ordinary host memory.
cudaMemoryType type_of(const void* data);
// The card whose memory it is; for all other memory the calling thread's current card.
int card_at(const void* data);

}  // namespace mezzo::emulated_card
