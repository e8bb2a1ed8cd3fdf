// Checks that the processes of a group agree, and lets all of them fail when one fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string_view>

#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::distributed {

// FNV-1a: Fowler, Noll and Vo, http://www.isthe.com/chongo/tech/comp/fnv.
class Hash {
 public:
  template <class Number>
  void add(Number number) {
    value_ = (value_ ^ static_cast<std::uint64_t>(number)) * 0x100000001b3U;
  }
  void add(std::string_view text) {
    for (const char letter : text) add(static_cast<unsigned char>(letter));
    add(text.size());
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

// A hash of the properties that give elements their meaning (dtype, format and shape); 0 for an
// undefined tensor.
std::uint64_t layout_of(const Tensor& tensor);

// Throws ArgumentError in every process unless all have the same value. The message names two
// values that differ and ends with `advice`.
void check_same(ProcessGroup& group, std::string_view op, std::string_view what, double value,
                std::string_view advice);

// An entry of a list that differs from the one in process 0.
struct Difference {
  std::size_t index = 0;
  std::size_t process = 0;
  std::uint64_t value = 0, first = 0;  // in the process that differs, and in process 0
};

// The first difference between the lists of the processes; the same result in every process.
// Exchanges one number if there is none. Throws check_same()'s error, with the lengths as values,
// unless the lists are equally long.
std::optional<Difference> first_difference(ProcessGroup& group, std::span<const std::uint64_t> own,
                                           std::string_view op, std::string_view count,
                                           std::string_view advice);

// Throws in every process if one has failed: there its own exception, elsewhere an Error. All
// processes then know that all have failed, and can still wait for each other: see
// meet_in_failure().
void fail_together(ProcessGroup& group, std::string_view op, std::exception_ptr failure);

// After fail_together() has thrown: returns once all processes have called it, so all their earlier
// work is done. Otherwise it returns at once, because a process that fails alone must not wait.
void meet_in_failure(ProcessGroup& group);

}  // namespace mezzo::distributed
