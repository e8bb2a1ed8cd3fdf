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

// How to produce a storage's contents when they are first asked for. A 16-bit copy of a weight is
// such a storage: kernels that pack weights straight from the f32 parameter never ask for it.
class LazyContents : public RefCounted {
 public:
  // Writes the contents to memory of the storage's device. May ask for other contents, those of
  // what these are a copy of.
  virtual void fill(void* destination) = 0;
  // False once what the contents are made from has changed.
  virtual bool is_current() const = 0;

 private:
  friend class Storage;
  std::mutex filling_;  // of these contents alone: filling them may fill others
};

// Asks for memory of the host that copies to a card read while the host goes on.
struct Pinned {};

class Storage final : public RefCounted {
 public:
  // `bytes` of uninitialised memory.
  Storage(std::size_t bytes, Device device);
  // Memory that is allocated and filled when data() is first called.
  Storage(std::size_t bytes, Device device, Ref<LazyContents> contents);
  // A part of somebody else's memory, which `owner` keeps.
  Storage(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner);
  // Memory of the host, pinned. Throws UnsupportedError where there is no card.
  Storage(std::size_t bytes, Pinned);
  ~Storage() override;

  void* data() const {
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      materialize();
    return data_;
  }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Counts the in-place changes of the contents. What is saved for a backward pass, and what is
  // derived from a tensor, remembers the version it belongs to.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // Fills the lazy copies of the contents that somebody holds: called before a change, they stay
  // what they were copies of.
  void fill_held_copies() {
    if (derived_.load(std::memory_order_acquire) != nullptr) fill_held_of_derived();
  }

  // The recipe of a lazy storage, null for an ordinary one.
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
  Ref<RefCounted> owner_;  // of the memory, if that is not this storage
  std::atomic<DerivedCopies*> derived_{nullptr};
};

}  // namespace mezzo
