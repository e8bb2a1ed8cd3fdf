// Parallel loops. mezzo and oneDNN share one OpenMP pool, so that they never compete for cores.
#pragma once

#include <cstdint>

#include "mezzo/core/function_ref.h"

namespace mezzo {

// The number of threads that parallel loops of the calling thread use. Each thread that computes
// has its own pool. Until it sets a size, the pool has OMP_NUM_THREADS threads, or one per core.
int num_threads();
// Sets num_threads() for the calling thread alone. Throws ArgumentError unless count >= 1.
void set_num_threads(int count);

// An identifier of the calling thread that no other thread has or had.
std::uint64_t this_thread();

// Calls body(begin, end) for consecutive ranges that cover [0, n), in parallel when there is more
// than `grain` per thread to do. The ranges depend only on n, grain and the thread count, so
// results that depend on them are repeatable. If bodies throw, the exception of the lowest range is
// rethrown. The loop is compiled once, not for every body.
void parallel_for(std::int64_t n, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

// A grain for loops over elements: with fewer per thread, another thread costs more than it saves.
inline constexpr std::int64_t kElementGrain = 1 << 14;

}  // namespace mezzo
