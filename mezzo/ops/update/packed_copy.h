// Copies of weights in kernels' own layouts, as updates see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mezzo/core/half.h"
#include "mezzo/core/ref.h"
#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// The pass in which a copy is read.
enum class ReadIn : std::uint8_t { kForward, kBackward };

// Memory for copies, provided by somebody who plans memory and knows when it is free.
class PackedPlaces {
 public:
  // Memory for the copy of a parameter; null if there is none.
  virtual Ref<Storage> place_for(const Tensor& param, ReadIn pass, std::size_t bytes) = 0;

 protected:
  ~PackedPlaces() = default;
};

// While it exists, updates of this thread write copies to these places, as far as there are any.
class OfferPlaces {
 public:
  explicit OfferPlaces(PackedPlaces& places);

 private:
  Scoped<PackedPlaces*> scope_;
};

// How a parameter is divided into patches, which are packed one at a time. A patch has `columns`
// neighbouring elements in each of `rows` rows, of `row_elements` each.
struct PatchGrid {
  std::int64_t row_elements = 0;
  std::int64_t rows = 0, columns = 0;  // divisors of the parameter's rows, and of row_elements
  bool is_rounded = false;             // packed from Patch::rounded: at most kMostRounded elements

  bool operator==(const PatchGrid&) const = default;
};
inline constexpr std::int64_t kMostRounded = 1024;

struct Patch {
  std::int64_t row = 0, column = 0;   // position of its first element
  const float* param = nullptr;       // the whole parameter
  const BFloat16* rounded = nullptr;  // the patch's elements, row by row, rounded like a cast
};

// A copy of a parameter, or of its 16-bit copy, that is derived from it (core/derived.h). An update
// writes the next copy while the new values are in the caches; packing later would read them from
// memory once more. Thread-safe.
class PackedCopy : public RefCounted {
 public:
  // The copy that replaces this one when the f32 parameter `param` has changed; write() fills it.
  // Null if that is not worth it, or cannot be done patch by patch.
  virtual Ref<PackedCopy> renewed(const Tensor& param) = 0;

  virtual PatchGrid grid() const = 0;
  // Packs one patch. Different patches may be written at the same time. Stores may bypass the
  // caches: the thread calls hwy::FlushStream() before others read them.
  virtual void write(const Patch& patch) = 0;
  // Bytes of one element.
  virtual std::size_t element_bytes() const = 0;

  virtual ReadIn pass() const = 0;
  // Free its memory: the next reader packs the copy again. let_go_if_read() does so only once it
  // was read.
  virtual void let_go() = 0;
  virtual void let_go_if_read() = 0;

 protected:
  // The places that are offered to this thread, or null.
  static PackedPlaces* offered_places();
};

// The packed copies that are derived from the storage at its current version.
std::vector<Ref<PackedCopy>> packed_copies_of(Storage& storage);

// The packed copies that an update writes for one parameter.
struct PackedCopies {
  const Ref<PackedCopy>* first = nullptr;
  std::size_t count = 0;

  const Ref<PackedCopy>* begin() const { return first; }
  const Ref<PackedCopy>* end() const { return first + count; }
};

}  // namespace mezzo
