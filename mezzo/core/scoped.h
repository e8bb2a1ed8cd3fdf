// A variable that has another value for a while.
#pragma once

#include <utility>

namespace mezzo {

// While it exists, `place` has that value; then it has the one before again. For settings of a
// thread (thread_local variables), so that an exception restores them, too. Such scopes end in the
// opposite order in which they began.
template <class T>
class Scoped {
 public:
  Scoped(T& place, T value) : place_(place), previous_(std::exchange(place, std::move(value))) {}
  ~Scoped() { place_ = std::move(previous_); }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

  const T& previous() const { return previous_; }

 private:
  T& place_;
  T previous_;
};

}  // namespace mezzo
