// Sets the number of threads while an object exists.
#pragma once

#include "mezzo/core/parallel.h"

namespace mezzo::test {

// Calls set_num_threads(); the destructor restores the previous number.
class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace mezzo::test
