// One parallel loop over many blocks of memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/parallel.h"

namespace mezzo::kernels {

// Calls body(block, begin, end) so that the ranges together cover every block. The elements of all
// blocks are split evenly among the threads. A network has hundreds of parameters, most of them
// small; a parallel region for each would cost more than the work.
template <class Block, class Body>
void for_ranges(std::span<const Block> blocks, std::int64_t grain, const Body& body) {
  std::vector<std::int64_t> starts{0};  // block i holds the elements [starts[i], starts[i + 1])
  starts.reserve(blocks.size() + 1);
  for (const Block& block : blocks) starts.push_back(starts.back() + block.count);
  parallel_for(starts.back(), grain, [&](std::int64_t begin, std::int64_t end) {
    auto i = static_cast<std::size_t>(std::ranges::upper_bound(starts, begin) - starts.begin() - 1);
    for (std::int64_t at = begin; at < end; ++i) {
      const std::int64_t stop = std::min(end, starts[i + 1]);
      if (at < stop) body(i, at - starts[i], stop - starts[i]);
      at = stop;
    }
  });
}

}  // namespace mezzo::kernels
