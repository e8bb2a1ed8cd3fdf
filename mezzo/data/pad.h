// Pads sequences of unequal length into one tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

enum class PadSide : std::uint8_t { kRight, kLeft };

struct PadOptions {
  double value = 0;  // of the padding elements
  PadSide side = PadSide::kRight;
};

struct PaddedSequences {
  Tensor values{};   // [n, longest length, ...], of the sequences' dtype
  Tensor lengths{};  // i64 [n]
};

// Pads sequences [t_i, ...], which must agree in dtype and in all dimensions but the first, to the
// length of the longest (PyTorch's pad_sequence with batch_first). A sequence may have the length
// 0. Throws ArgumentError if there are no sequences, if they do not agree, if one is not dense or
// not in host memory, or if their dtype cannot hold the value.
PaddedSequences pad_sequences(std::span<const Tensor> sequences, const PadOptions& options = {});

// The lengths t_i, for length_buckets(). Throws ArgumentError unless every sequence is [t_i, ...].
std::vector<std::int64_t> lengths_of(std::span<const Tensor> sequences);

// Throws what pad_sequences() would throw for these arguments.
void check_sequences(std::string_view op, std::span<const Tensor> sequences,
                     const PadOptions& options);

}  // namespace mezzo::data
