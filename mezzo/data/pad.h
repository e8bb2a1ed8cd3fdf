// Sequences of unequal length as one tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

enum class PadSide : std::uint8_t { kRight, kLeft };

struct PadOptions {
  double value = 0;  // of the elements that are filled in
  PadSide side = PadSide::kRight;
};

struct PaddedSequences {
  Tensor values{};   // [n, longest length, ...], of the sequences' dtype
  Tensor lengths{};  // i64 [n]
};

// Sequences [t_i, ...], alike in dtype and in all dimensions but the first, each filled up to the
// longest one (PyTorch's pad_sequence with batch_first). A sequence may have the length 0. Throws
// ArgumentError if there are none, if they are not alike, if one is not dense or not in the host's
// memory, or if the value is none of their dtype.
PaddedSequences pad_sequences(std::span<const Tensor> sequences, const PadOptions& options = {});

// The lengths t_i, for length_buckets(). Throws ArgumentError unless all are [t_i, ...].
std::vector<std::int64_t> lengths_of(std::span<const Tensor> sequences);

// What pad_sequences() would throw for these.
void check_sequences(std::string_view op, std::span<const Tensor> sequences,
                     const PadOptions& options);

}  // namespace mezzo::data
