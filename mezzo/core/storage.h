// A block of memory shared by a tensor and its views, with the version counter of its contents.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "mezzo/core/derived.h"
#include "mezzo/core/device.h"
#include "mezzo/core/ref.h"

namespace mezzo {

// Produces a storage's contents when they are first read. A 16-bit copy of a weight is such a
// storage: kernels that pack weights straight from the f32 parameter never read it.
class LazyContents : public RefCounted {
 public:
  // Writes the contents to memory of the storage's device. May read other lazy contents, those of
  // the tensor that this is a copy of.
  virtual void fill(void* destination) = 0;
  // False once the source of the contents has changed.
  virtual bool is_current() const = 0;

 private:
  friend class Storage;
  std::mutex filling_;  // for these contents alone: filling them may fill others
};

// Selects pinned host memory, from which copies to a GPU run while the host goes on.
struct Pinned {};

class Storage final : public RefCounted {
 public:
  // `bytes` of uninitialised memory.
  Storage(std::size_t bytes, Device device);
  // Memory that is allocated and filled at the first call of data().
  Storage(std::size_t bytes, Device device, Ref<LazyContents> contents);
  // A part of another owner's memory, which `owner` keeps alive.
  Storage(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner);
  // Pinned host memory. Throws UnsupportedError where there is no GPU.
  Storage(std::size_t bytes, Pinned);
  ~Storage() override;

  void* data() const {
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      materialize();
    return data_;
  }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Counts the in-place changes of the contents. Tensors saved for a backward pass, and copies
  // derived from a tensor, remember the version that they belong to.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // Fills the lazy copies of the contents that somebody holds. To be called before a change, so
  // that those copies keep the old values.
  void fill_held_copies() {
    if (derived_.load(std::memory_order_acquire) != nullptr) fill_held_of_derived();
  }

  // The lazy contents; null for an ordinary storage.
  LazyContents* lazy_contents() const { return contents_.get(); }
  // Copies of the contents in other dtypes and layouts.
  DerivedCopies& derived();
  void drop_derived();
  bool is_pinned() const { return is_pinned_; }
  bool is_materialized() const { return ready_.load(std::memory_order_acquire); }

 private:
  void materialize() const;
  void fill_held_of_derived();

  mutable void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::atomic<std::uint64_t> version_{0};
  mutable std::atomic<bool> ready_{true};
  Device device_;
  bool is_pinned_ = false;
  Ref<LazyContents> contents_;
  Ref<RefCounted> owner_;  // owner of the memory, if that is not this storage
  std::atomic<DerivedCopies*> derived_{nullptr};
};

}  // namespace mezzo
