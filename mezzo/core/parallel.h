// Loops over several threads. mezzo and oneDNN share one OpenMP pool, so that they never fight for
// cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

#include <omp.h>

namespace mezzo {

// The number of threads that parallel loops use.
int num_threads();
// Throws ArgumentError unless count >= 1.
void set_num_threads(int count);

// Calls body(begin, end) for consecutive ranges that cover [0, n), in parallel when there is more
// than `grain` per thread to do. The ranges depend on n, grain and the thread count only, so
// results that depend on them are repeatable. The first exception of a body is rethrown.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(grain, 1));
  const int threads = static_cast<int>(std::min<std::int64_t>(most, num_threads()));
  if (threads <= 1 || omp_in_parallel() != 0) {
    body(std::int64_t{0}, n);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel num_threads(threads)
  {
    // The runtime may grant fewer threads than asked for.
    const std::int64_t count = omp_get_num_threads();
    const std::int64_t index = omp_get_thread_num();
    try {
      const std::int64_t begin = n * index / count;
      const std::int64_t end = n * (index + 1) / count;
      if (begin < end) body(begin, end);
    } catch (...) {
#pragma omp critical(mezzo_parallel_for)
      if (error == nullptr) error = std::current_exception();
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace mezzo
