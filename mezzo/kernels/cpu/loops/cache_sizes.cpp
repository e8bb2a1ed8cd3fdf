#include "mezzo/kernels/cpu/loops/cache_sizes.h"

#include <unistd.h>

namespace mezzo::kernels {

std::int64_t second_level_cache() {
  static const std::int64_t kBytes = [] {
    const long found = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return found > 0 ? static_cast<std::int64_t>(found) : kCachesWithVectors.second;
  }();
  return kBytes;
}

}  // namespace mezzo::kernels
