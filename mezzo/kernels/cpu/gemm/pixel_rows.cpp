#include "mezzo/kernels/cpu/gemm/pixel_rows.h"

#include <algorithm>
#include <utility>

#include "mezzo/kernels/cpu/gemm/pixel_strips.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::pixels {
namespace {

// Computes strips on the calling thread.
class Strips {
 public:
  explicit Strips(const Product& product) : product_(product), registers_(product.unit) {
    if (product.norm != nullptr) normalized_ = empty({most_rows(), product.inner}, DType::kBf16);
  }

  std::int64_t most_rows() const { return rows_of_strip(product_.unit); }

  // Computes `rows` rows from `row` on.
  void compute(std::int64_t row, std::int64_t rows, const Range& columns,
               const NormPart* part) const {
    const Strip strip{numbers(row, rows), row, rows, columns.begin, columns.end};
    product_.unit == Unit::kTiles ? compute_on_tiles(product_, strip, part)
                                  : compute_by_dots(product_, strip, part);
  }

 private:
  const BFloat16* numbers(std::int64_t row, std::int64_t rows) const {
    const BFloat16* const stored = product_.x + row * product_.inner;
    if (product_.norm == nullptr) return stored;
    auto* const normalized = normalized_.mutable_data<BFloat16>();
    product_.norm->normalize(stored, rows, normalized);
    return normalized;
  }

  const Product& product_;
  UnitRegisters registers_;
  Tensor normalized_{};
};

void compute(const Product& p, const Range& rows, const Range& columns) {
  const Strips strips(p);
  for (std::int64_t row = rows.begin; row < rows.end; row += strips.most_rows()) {
    strips.compute(row, std::min(strips.most_rows(), rows.end - row), columns, nullptr);
  }
}

// Adds a chunk's sums to the totals and resets them.
void add_chunk(const NormPart& part, std::int64_t columns) {
  const auto add = [&](float* chunk, float* total) {
    for (std::int64_t c = 0; c < columns; ++c) total[c] += std::exchange(chunk[c], 0.0F);
  };
  add(part[NormPart::kChunkSum], part[NormPart::kSum]);
  add(part[NormPart::kChunkSquares], part[NormPart::kSquares]);
}

// Computes rows [begin, end) and their sums; `begin` is the start of a chunk.
void compute_and_sum(const Product& p, std::int64_t begin, std::int64_t end, const NormPart& part) {
  const Strips strips(p);
  while (begin < end) {
    const std::int64_t end_chunk = std::min(begin + NormSums::kChunkRows, end);
    while (begin < end_chunk) {
      const std::int64_t rows = std::min(strips.most_rows(), end_chunk - begin);
      strips.compute(begin, rows, {0, p.outer}, &part);
      begin += rows;
    }
    add_chunk(part, p.outer);
  }
}

}  // namespace

void multiply(const Product& p, const Range& rows, const Range& columns) {
  constexpr std::int64_t kColumns = 2 * kBlock;  // two lines of the result
  const std::int64_t chunk = std::max(kChunkBytes / (2 * p.inner) / kColumns * kColumns, kColumns);
  for (std::int64_t column = columns.begin; column < columns.end; column += chunk) {
    compute(p, rows, {column, std::min(column + chunk, columns.end)});
  }
}

void multiply_and_sum(const Product& p, const NormSums& sums, int part) {
  const std::int64_t begin = sums.rows().first_row(part);
  const std::int64_t end = sums.rows().first_row(part + 1);
  const std::int64_t middle = begin + sums.rows_at_first(part);
  multiply(p, {begin, middle}, {0, p.outer});
  const NormPart totals = sums.begin(part, p.y);
  compute_and_sum(p, middle, end, totals);
}

}  // namespace mezzo::kernels::pixels
