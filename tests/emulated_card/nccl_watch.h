// What tests do to the emulated card's NCCL, and see of it.
#pragma once

#include <cstdint>

namespace mezzo::emulated_card {

// NCCL is not installed.
void set_nccl_missing(bool missing);
// ncclCommInitRank() fails in that process of a group; -1: in none.
void set_nccl_init_failure(int rank);
// From now on communicators report an error of their connections, or no longer.
void set_nccl_async_failure(bool fails);

// Exchanges that were called so far, each counted once for all processes; communicators that were
// made and not ended yet, and those that were aborted.
struct NcclCounts {
  std::int64_t exchanges = 0;
  std::int64_t open = 0;
  std::int64_t aborted = 0;
};
NcclCounts nccl_counts();

}  // namespace mezzo::emulated_card
