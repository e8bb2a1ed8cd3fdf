// A guard that forbids filling memory with random numbers.
#pragma once

#include <string_view>

#include "mezzo/core/scoped.h"

namespace mezzo {

// While it exists, fill_uniform() and fill_normal(), and so rand() and randn(), throw an
// ArgumentError with this text on the calling thread.
class RefuseRandomFills {
 public:
  explicit RefuseRandomFills(std::string_view reason);

 private:
  Scoped<std::string_view> scope_;
};

}  // namespace mezzo
