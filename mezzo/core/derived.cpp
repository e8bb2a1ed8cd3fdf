#include "mezzo/core/derived.h"

#include <utility>

namespace mezzo {

Ref<RefCounted> DerivedCopies::find(const DerivedKey& key, std::uint64_t version) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.version != version; });
  for (const Entry& entry : entries_) {
    if (entry.key == key) return entry.copy;
  }
  return nullptr;
}

void DerivedCopies::put(const DerivedKey& key, std::uint64_t version, Ref<RefCounted> copy) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_,
                [&](const Entry& entry) { return entry.key == key || entry.version != version; });
  entries_.push_back({key, version, std::move(copy)});
}

std::vector<Ref<RefCounted>> DerivedCopies::held(std::uint64_t version) {
  std::vector<Ref<RefCounted>> found;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.version == version && entry.copy->use_count() > 1) found.push_back(entry.copy);
  }
  return found;
}

std::vector<DerivedCopies::Entry> DerivedCopies::all(std::uint64_t version) {
  std::vector<Entry> found;
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.version == version) found.push_back(entry);
  }
  return found;
}

void DerivedCopies::clear() {
  std::vector<Entry> dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  dropped.swap(entries_);
}

}  // namespace mezzo
