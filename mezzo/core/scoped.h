// A variable that has another value within a scope.
#pragma once

#include <utility>

namespace mezzo {

// While it exists, `place` has the given value; afterwards it has its previous value again. It is
// meant for settings of a thread (thread_local variables), which an exception restores, too. Nested
// scopes must end in the reverse order of their beginning.
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
