#include "mezzo/kernels/cpu/recurrent/sequences.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "mezzo/kernels/checked_lengths.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels {
namespace {

std::vector<std::int64_t> lengths_of(const Tensor& lengths, std::int64_t batch, std::int64_t steps,
                                     const char* op) {
  if (!lengths.defined()) return std::vector<std::int64_t>(static_cast<std::size_t>(batch), steps);
  const Tensor plain = dense(lengths, Format::kContiguous);
  return checked_lengths(plain.data<std::int64_t>(), batch, steps, op);
}

}  // namespace

Sequences::Sequences(const Tensor& lengths, std::int64_t batch, std::int64_t steps, bool reverse,
                     const char* op)
    : lengths_(lengths_of(lengths, batch, steps, op)),
      order_(static_cast<std::size_t>(batch)),
      active_(static_cast<std::size_t>(steps)),
      reverse_(reverse) {
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, std::greater<>{},
                           [this](std::int64_t sequence) { return length(sequence); });
  for (std::int64_t p = 0; p < steps; ++p) {
    active_[static_cast<std::size_t>(p)] =
        std::ranges::count_if(lengths_, [p](std::int64_t length) { return length > p; });
  }
}

void Sequences::clear_ends(const Tensor& x) const {
  if (x.numel() == 0) return;
  auto* bytes = static_cast<char*>(x.mutable_raw_data());
  const std::size_t step = x.bytes() / static_cast<std::size_t>(batch() * steps());
  for (std::int64_t n = 0; n < batch(); ++n) {
    const auto first = static_cast<std::size_t>(n * steps() + length(n));
    std::memset(bytes + first * step, 0, static_cast<std::size_t>(steps() - length(n)) * step);
  }
}

}  // namespace mezzo::kernels
