// What the processes of a group must have in common, and what they do when one of them fails.
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

// What must be the same for elements to mean the same, dtype, format and shape, as a number; 0 for
// an undefined tensor.
std::uint64_t layout_of(const Tensor& tensor);

// Throws ArgumentError, in every process, unless all have the same value, naming two that differ.
// `advice` ends the message.
void check_same(ProcessGroup& group, std::string_view op, std::string_view what, double value,
                std::string_view advice);

// A number of a list that is another one in process 0.
struct Difference {
  std::size_t index = 0;
  std::size_t process = 0;
  std::uint64_t value = 0, first = 0;  // there, and in process 0
};

// Where lists differ; the same in every process. Exchanges one number if they do not. Throws
// check_same()'s error, with the lengths as values, unless they are equally long.
std::optional<Difference> first_difference(ProcessGroup& group, std::span<const std::uint64_t> own,
                                           std::string_view op, std::string_view count,
                                           std::string_view advice);

// Throws in every process if one has failed: its own exception there, an Error elsewhere. All then
// know that all have failed, and can still wait for each other: see meet_in_failure().
void fail_together(ProcessGroup& group, std::string_view op, std::exception_ptr failure);

// Behind fail_together() that threw, returns once all have called it: what each of them did before
// is done. Elsewhere at once: who fails alone must not wait.
void meet_in_failure(ProcessGroup& group);

}  // namespace mezzo::distributed
