#include "mezzo/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include <omp.h>

#include "mezzo/core/error.h"

namespace mezzo {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int count) {
  check_arg(count >= 1, "set_num_threads", "at least one thread is needed: ", count);
  omp_set_num_threads(count);
}

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t number = ++threads;
  return number;
}

void parallel_for(std::int64_t n, std::int64_t grain,
                  FunctionRef<void(std::int64_t begin, std::int64_t end)> body) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(grain, 1));
  const int threads = static_cast<int>(std::min<std::int64_t>(most, num_threads()));
  if (threads <= 1 || omp_in_parallel() != 0) {
    body(0, n);
    return;
  }
  // The error of the lowest range that failed, so that messages do not depend on timing.
  std::exception_ptr error;
  std::int64_t failed = 0;
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
      if (error == nullptr || index < failed) {
        error = std::current_exception();
        failed = index;
      }
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace mezzo
