#include "mezzo/core/parallel.h"

#include "mezzo/core/error.h"

namespace mezzo {

int num_threads() { return omp_get_max_threads(); }

void set_num_threads(int count) {
  check_arg(count >= 1, "set_num_threads", "at least one thread is needed: ", count);
  omp_set_num_threads(count);
}

}  // namespace mezzo
