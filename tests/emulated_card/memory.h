// The memory of the emulated card, and pinned memory of the host.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace mezzo::emulated_card {

// Lets the host's instructions reach the card's memory while it exists. Otherwise they end the
// program with a segmentation fault, as on a machine with a real card; not so in sanitized builds,
// where every block is one of the host's, so that accesses past its end are found.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

inline constexpr std::size_t kRoom = 4UL << 30U;  // bytes of the card

// What is left of it, less what other programs are said to use.
std::size_t free_bytes();
void set_used_by_others(std::size_t bytes);

// Null if there is no room. Filled with ones: what reads it before it is written finds NaNs.
void* take_memory(std::size_t bytes);
void* take_pinned(std::size_t bytes);
// False if no such block has been taken.
bool give_back_memory(void* block);

// Where a byte lies; cudaMemoryTypeUnregistered for the host's ordinary memory.
cudaMemoryType type_of(const void* data);

}  // namespace mezzo::emulated_card
