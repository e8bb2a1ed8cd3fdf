// Who may fill memory with random numbers.
#pragma once

#include <string_view>

namespace mezzo {

// While it exists, fill_uniform() and fill_normal(), and so rand() and randn(), throw an
// ArgumentError with this text on this thread.
class RefuseRandomFills {
 public:
  explicit RefuseRandomFills(std::string_view reason);
  ~RefuseRandomFills();
  RefuseRandomFills(const RefuseRandomFills&) = delete;
  RefuseRandomFills& operator=(const RefuseRandomFills&) = delete;

 private:
  std::string_view previous_;
};

}  // namespace mezzo
