#include "mezzo/core/scratch.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/math.h"

namespace mezzo {
namespace {

thread_local LendScratch* lent = nullptr;

}  // namespace

LendScratch::LendScratch(const Ref<Storage>& memory, std::size_t offset, std::size_t bytes)
    : memory_(memory), offset_(offset), bytes_(bytes), previous_(std::exchange(lent, this)) {}

LendScratch::~LendScratch() { lent = previous_; }

Tensor scratch(const Shape& shape, DType dtype, Format format) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (lent == nullptr || lent->bytes_ < bytes) return empty(shape, dtype, format);
  auto* const place = static_cast<std::byte*>(lent->memory_->data()) + lent->offset_;
  // The next tensor follows at a multiple of a cache line, the alignment that allocators give.
  constexpr std::size_t kLine = 64;
  const std::size_t taken = std::min(lent->bytes_, round_up(bytes, kLine));
  lent->offset_ += taken;
  lent->bytes_ -= taken;
  Ref<Storage> storage = make_ref<Storage>(place, bytes, lent->memory_->device(),
                                           Ref<RefCounted>(lent->memory_.get()));
  return Tensor(
      make_ref<TensorImpl>(std::move(storage), 0, shape, strides_for(shape, format), dtype));
}

}  // namespace mezzo
