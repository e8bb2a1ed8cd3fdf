// Copies of a tensor in another dtype or memory layout, made once per change of the tensor.
//
// They belong to the tensor's storage (usually a parameter's) and remember the version that they
// were made from. So there is no cache to clear: an in-place edit, an optimizer step or a loaded
// checkpoint makes them stale by itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/ref.h"
#include "mezzo/core/shape.h"

namespace mezzo {

// Identifies a copy by its kind (one constant per place that makes copies), by what distinguishes
// copies of that kind (a dtype, a hash of a layout), and by the tensor that it copies. The tensor's
// whole geometry is needed: views of a parameter, and parameters in one block, may begin at the
// same element.
struct DerivedKey {
  std::uint64_t kind = 0;
  std::uint64_t detail = 0;
  std::int64_t offset = 0;
  Shape shape{};
  Strides strides{};
  DType dtype = DType::kF32;
  // On a device, copies are made in this thread's queue; other threads would have to wait for it.
  std::uint64_t thread = 0;

  bool operator==(const DerivedKey&) const = default;
};

// Thread-safe.
class DerivedCopies {
 public:
  // The copy made for `key` at `version`, or null. Drops copies of older versions.
  Ref<RefCounted> find(const DerivedKey& key, std::uint64_t version);
  void put(const DerivedKey& key, std::uint64_t version, Ref<RefCounted> copy);
  void clear();

  struct Entry {
    DerivedKey key;
    std::uint64_t version;
    Ref<RefCounted> copy;
  };
  // The copies made at `version` that somebody else holds, too. Usually there are none, which
  // allocates nothing.
  std::vector<Ref<RefCounted>> held(std::uint64_t version);
  // All copies made at `version`.
  std::vector<Entry> all(std::uint64_t version);

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace mezzo
