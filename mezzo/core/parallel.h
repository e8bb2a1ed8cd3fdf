// Loops over several threads. mezzo and oneDNN share one OpenMP pool, so that they never fight for
// cores.
#pragma once

#include <cstdint>

#include "mezzo/core/function_ref.h"

namespace mezzo {

// The number of threads that parallel loops of the calling thread use. Each thread that computes
// has a pool of its own, of OMP_NUM_THREADS or as many threads as there are cores until it sets its
// own.
int num_threads();
// For the calling thread alone. Throws ArgumentError unless count >= 1.
void set_num_threads(int count);

// A number of the calling thread that no other has or had.
std::uint64_t this_thread();

// Calls body(begin, end) for consecutive ranges that cover [0, n), in parallel when there is more
// than `grain` per thread to do. The ranges depend on n, grain and the thread count only, so
// results that depend on them are repeatable. Of the exceptions of bodies, that of the lowest range
// is rethrown. The loop is compiled once, not for every body: that is called once per thread.
void parallel_for(std::int64_t n, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

// A grain for loops over elements: with fewer per thread, a second one costs more than it brings.
inline constexpr std::int64_t kElementGrain = 1 << 14;

}  // namespace mezzo
