// A number of threads for as long as an object lives.
#pragma once

#include "mezzo/core/parallel.h"

namespace mezzo::test {

// Sets num_threads(); the destructor puts back what was set before.
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
