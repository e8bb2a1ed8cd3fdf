#include "mezzo/core/error.h"

#include <cstdio>
#include <cstdlib>

namespace mezzo::detail {

void invariant_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "mezzo: invariant `%s` does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace mezzo::detail
