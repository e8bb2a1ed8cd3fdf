// Copies of weights in layouts of kernels' own, as updates see them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mezzo/core/derived.h"
#include "mezzo/core/ref.h"

namespace mezzo {

// The shares [first, last) of work that is divided into so many.
struct WorkShare {
  std::int64_t first = 0, last = 1, shares = 1;
};

// A copy of a parameter, or of its 16-bit copy, that is derived from it (core/derived.h). An update
// writes the next one while it has the new numbers in the caches: packed later, they would be read
// from memory once more. Thread-safe.
class PackedCopy : public RefCounted {
 public:
  // The copy that takes the place of this one when the f32 parameter has changed, for write() to
  // fill. Null if that is not worth while, or cannot be done part by part.
  virtual Ref<PackedCopy> renewed() = 0;

  // Elements of the parameter that are packed together: write() takes whole parts, and they divide
  // the parameter.
  virtual std::int64_t part() const = 0;
  // Packs elements [begin, end) of the parameter at `param`, or that share of them. Different parts
  // and shares may be written at the same time.
  virtual void write(const float* param, std::int64_t begin, std::int64_t end, WorkShare share) = 0;
  // Of one element.
  virtual std::size_t element_bytes() const = 0;

  // Gives its memory back if the copy has been read.
  virtual void let_go_if_read() = 0;
};

// What an update writes beside one parameter.
struct PackedCopies {
  const Ref<PackedCopy>* first = nullptr;
  std::size_t count = 0;

  const Ref<PackedCopy>* begin() const { return first; }
  const Ref<PackedCopy>* end() const { return first + count; }
};

}  // namespace mezzo
