#include "mezzo/kernels/cpu/loops/loop.h"

namespace mezzo::kernels {
namespace {

template <class T>
void copy_sized(const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
                std::int64_t count) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) out[i * to_step] = in[i * from_step];
}

}  // namespace

void copy_strided(std::int64_t size, const void* from, std::int64_t from_step, void* to,
                  std::int64_t to_step, std::int64_t count) {
  switch (size) {
    case 1: return copy_sized<std::uint8_t>(from, from_step, to, to_step, count);
    case 2: return copy_sized<std::uint16_t>(from, from_step, to, to_step, count);
    case 4: return copy_sized<std::uint32_t>(from, from_step, to, to_step, count);
    default: return copy_sized<std::uint64_t>(from, from_step, to, to_step, count);
  }
}

}  // namespace mezzo::kernels
