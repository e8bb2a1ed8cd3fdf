#include "mezzo/ops/update/packed_copy.h"

#include "mezzo/core/storage.h"

namespace mezzo {
namespace {

thread_local PackedPlaces* places_of_thread = nullptr;

}  // namespace

OfferPlaces::OfferPlaces(PackedPlaces& places) : scope_(places_of_thread, &places) {}

PackedPlaces* PackedCopy::offered_places() { return places_of_thread; }

std::vector<Ref<PackedCopy>> packed_copies_of(Storage& storage) {
  std::vector<Ref<PackedCopy>> copies;
  for (const DerivedCopies::Entry& entry : storage.derived().all(storage.version())) {
    if (auto* copy = dynamic_cast<PackedCopy*>(entry.copy.get())) copies.emplace_back(copy);
  }
  return copies;
}

}  // namespace mezzo
