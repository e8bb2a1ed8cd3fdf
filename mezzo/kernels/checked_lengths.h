// The lengths of the sequences of a batch, for the kernels of recurrent layers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::kernels {

// The lengths as integers; all `steps` if there are none (null). Throws ArgumentError, naming the
// first that is not in [0, steps].
template <class Number>
std::vector<std::int64_t> checked_lengths(const Number* lengths, std::int64_t batch,
                                          std::int64_t steps, std::string_view op) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(batch), steps);
  if (lengths == nullptr) return result;
  for (std::int64_t n = 0; n < batch; ++n) {
    const auto length = static_cast<std::int64_t>(lengths[n]);
    check_arg(length >= 0 && length <= steps, op, "length ", length, " of sequence ", n,
              " is outside [0, ", steps, "]. Give the number of its steps");
    result[static_cast<std::size_t>(n)] = length;
  }
  return result;
}

}  // namespace mezzo::kernels
