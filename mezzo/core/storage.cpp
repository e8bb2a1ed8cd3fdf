#include "mezzo/core/storage.h"

#include <memory>
#include <utility>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"

namespace mezzo {

Storage::Storage(std::size_t bytes, Device device)
    : data_(allocate_on(device, bytes)), bytes_(bytes), device_(device) {}

Storage::Storage(std::size_t bytes, Device device, Ref<LazyContents> contents)
    : bytes_(bytes), ready_(false), device_(device), contents_(std::move(contents)) {}

Storage::Storage(void* data, std::size_t bytes, Device device, Ref<RefCounted> owner)
    : data_(data), bytes_(bytes), device_(device), owner_(std::move(owner)) {}

Storage::Storage(std::size_t bytes, Pinned)
    : data_(backend_of({DeviceType::kCuda, 0}).allocate_pinned(bytes)),
      bytes_(bytes),
      is_pinned_(true) {}

Storage::~Storage() {
  if (is_pinned_) {
    // The backend exists, because the memory came from it.
    DeviceBackend* const cuda = find_device_backend(DeviceType::kCuda);
    if (cuda != nullptr) cuda->release_pinned(data_, bytes_);
  } else if (!owner_) {
    release_on(device_, data_, bytes_);
  }
  delete derived_.load(std::memory_order_acquire);
}

DerivedCopies& Storage::derived() {
  DerivedCopies* derived = derived_.load(std::memory_order_acquire);
  if (derived != nullptr) return *derived;
  auto made = std::make_unique<DerivedCopies>();
  if (derived_.compare_exchange_strong(derived, made.get(), std::memory_order_acq_rel)) {
    return *made.release();
  }
  return *derived;  // another thread was first
}

void Storage::drop_derived() {
  if (DerivedCopies* derived = derived_.load(std::memory_order_acquire)) derived->clear();
}

void Storage::fill_held_of_derived() {
  for (const Ref<RefCounted>& held : derived().held(version())) {
    const auto* const copy = dynamic_cast<const Storage*>(held.get());
    if (copy != nullptr && !copy->is_materialized()) copy->data();
  }
}

void Storage::materialize() const {
  const std::lock_guard lock(contents_->filling_);
  if (ready_.load(std::memory_order_acquire)) return;
  check_arg(
      contents_->is_current(), "storage",
      "the elements were to be computed when first read, but the tensors that they are computed "
      "from were changed in place since. Read them before that, with to_vector() for example");
  void* block = allocate_on(device_, bytes_);
  try {
    contents_->fill(block);
  } catch (...) {
    release_on(device_, block, bytes_);
    throw;
  }
  data_ = block;
  ready_.store(true, std::memory_order_release);
}

}  // namespace mezzo
