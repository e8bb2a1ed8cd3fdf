// Copies of a tensor in another dtype or memory layout, made once per change of the tensor.
//
// They belong to the tensor (usually a parameter) and remember the version they were made from, so
// there is no cache to clear: an in-place edit, an optimizer step or a loaded checkpoint makes them
// stale by itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "mezzo/core/ref.h"

namespace mezzo {

class DerivedCopies {
 public:
  // The copy made for `key` at `version`, or null. Drops copies of older versions.
  Ref<RefCounted> find(std::uint64_t key, std::uint64_t version);
  void put(std::uint64_t key, std::uint64_t version, Ref<RefCounted> copy);

 private:
  struct Entry {
    std::uint64_t key;
    std::uint64_t version;
    Ref<RefCounted> copy;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace mezzo
