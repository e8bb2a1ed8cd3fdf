// A name for the allocations of a thread, so that an allocator that runs out of memory can report
// which operation holds it.
#pragma once

namespace mezzo {

// While it exists, allocations of this thread carry the label `what`, for example the name of an
// operation. The text must outlive every allocated block.
class AllocationLabel {
 public:
  explicit AllocationLabel(const char* what) : previous_(innermost) { innermost = what; }
  ~AllocationLabel() { innermost = previous_; }
  AllocationLabel(const AllocationLabel&) = delete;
  AllocationLabel& operator=(const AllocationLabel&) = delete;

  // The label of the calling thread; null if there is none.
  static const char* current() { return innermost; }

 private:
  // One for the program and a shared library, also where the program hides its symbols.
  [[gnu::visibility("default")]] static inline thread_local const char* innermost = nullptr;
  const char* previous_;
};

}  // namespace mezzo
