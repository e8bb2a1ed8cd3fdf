// Copies of a tensor in another dtype or memory layout, made once per change of the tensor.
//
// They belong to the tensor's storage (usually a parameter's) and remember the version they were
// made from, so there is no cache to clear: an in-place edit, an optimizer step or a loaded
// checkpoint makes them stale by itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "mezzo/core/dtype.h"
#include "mezzo/core/ref.h"
#include "mezzo/core/shape.h"

namespace mezzo {

// What a copy is: its kind (one constant per place that makes copies), what tells copies of that
// kind apart (a dtype, a hash of a layout), and which tensor of the storage it copies. That needs
// the whole geometry: views of a parameter, and parameters in one block, may begin at one element.
struct DerivedKey {
  std::uint64_t kind = 0;
  std::uint64_t detail = 0;
  std::int64_t offset = 0;
  Shape shape{};
  Strides strides{};
  DType dtype = DType::kF32;
  // On a device, whose copies are made in that thread's queue: others would have to wait for it.
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
  // Those made at `version` that somebody else holds, too; none as a rule, which takes no memory.
  std::vector<Ref<RefCounted>> held(std::uint64_t version);
  // All that were made at `version`.
  std::vector<Entry> all(std::uint64_t version);

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace mezzo
