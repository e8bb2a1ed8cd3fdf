// What memory is asked for, so that an allocator that has no more can say who holds it.
#pragma once

namespace mezzo {

// While it exists, the memory that this thread asks for is for `what`, an operation's name for
// example. The text must outlive every block.
class AllocationLabel {
 public:
  explicit AllocationLabel(const char* what) : previous_(innermost) { innermost = what; }
  ~AllocationLabel() { innermost = previous_; }
  AllocationLabel(const AllocationLabel&) = delete;
  AllocationLabel& operator=(const AllocationLabel&) = delete;

  // Of this thread; null if nobody said.
  static const char* current() { return innermost; }

 private:
  // One for the program and a shared library, also where the program hides its symbols.
  [[gnu::visibility("default")]] static inline thread_local const char* innermost = nullptr;
  const char* previous_;
};

}  // namespace mezzo
