// Reads all batches of a source, and makes rows for sources.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/batch_source.h"

namespace mezzo::data {

using Rows = std::vector<std::int64_t>;

// [n, 2] with rows {2 i, 2 i + 1}.
inline Tensor numbered_rows(std::int64_t n) {
  Rows values;
  for (std::int64_t i = 0; i < 2 * n; ++i) values.push_back(i);
  return from_values(values, {n, 2});
}

inline Tensor row_numbers(std::int64_t n) {
  Rows values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(i);
  return from_values(values, {n});
}

// The indices of each batch from here to the end of the epoch.
inline std::vector<Rows> batches_of(BatchSource& source) {
  std::vector<Rows> all;
  for (Batch batch; source.next(batch);) all.push_back(batch.indices);
  return all;
}

inline Rows joined(const std::vector<Rows>& batches) {
  Rows all;
  for (const Rows& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

}  // namespace mezzo::data
