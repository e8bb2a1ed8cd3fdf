// All values of a 16-bit type.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/half.h"

namespace mezzo::test {

template <class Half>
std::vector<Half> all_patterns() {
  std::vector<Half> values(65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    values[bits] = Half::from_bits(static_cast<std::uint16_t>(bits));
  }
  return values;
}

}  // namespace mezzo::test
