// pixel_strips.h on 64-bit Arm, by dot products.
#include <algorithm>

#include "mezzo/kernels/cpu/gemm/dots_neon-inl.h"
#include "mezzo/kernels/cpu/gemm/pixel_strips.h"

#if MEZZO_NEON_DOTS

namespace mezzo::kernels::pixels {
namespace {

constexpr int kRows = 6;  // 24 sums, 6 rows of factors and a vector of the weight

// Rows of a strip by the 16 columns from `column` on.
struct Place {
  const BFloat16* x = nullptr;
  BFloat16* y = nullptr;
  std::int64_t column = 0;
};

// The bias of 16 columns. Adding -0 changes no number, not even a zero's sign.
struct Bias {
  Bias(const float* bias, std::int64_t column) {
    for (int v = 0; v < kTileVectors; ++v) {
      at[v] = bias == nullptr ? vdupq_n_f32(-0.0F) : vld1q_f32(bias + column + 4 * v);
    }
  }
  float32x4_t at[kTileVectors];
};

// Adds up 16 columns of the result by the same arithmetic as batch_norm.
void add_row(const NormPart& part, std::int64_t column, const BFloat16* row) {
  for (int v = 0; v < kTileVectors; ++v) {
    const std::int64_t at = column + 4 * v;
    float* const sum = part[NormPart::kChunkSum] + at;
    float* const squares = part[NormPart::kChunkSquares] + at;
    const float32x4_t x =
        widened_bf16(vld1_u16(reinterpret_cast<const std::uint16_t*>(row + 4 * v)));
    const float32x4_t distance = vsubq_f32(x, vld1q_f32(part[NormPart::kShift] + at));
    vst1q_f32(sum, vaddq_f32(vld1q_f32(sum), distance));
    vst1q_f32(squares, vfmaq_f32(vld1q_f32(squares), distance, distance));
  }
}

template <int kCount>
MEZZO_NEON_DOT_TARGET void compute_block(const Product& p, const Place& place,
                                         const NormPart* part) {
  NeonSums<kCount> sums;
  sums.clear();
  sums.add(reinterpret_cast<const char*>(place.x), 2 * p.inner,
           p.weight + place.column * p.inner * 2, p.inner / 2);
  const Bias bias(p.bias, place.column);
  for (int r = 0; r < kCount; ++r) {
    BFloat16* const y = place.y + r * p.outer;
    for (int v = 0; v < kTileVectors; ++v) {
      vst1_u16(reinterpret_cast<std::uint16_t*>(y + 4 * v),
               rounded_to_bf16(vaddq_f32(sums.at[r][v], bias.at[v])));
    }
    if (part != nullptr) add_row(*part, place.column, y);
  }
}

void compute_rows(std::int64_t rows, const Product& p, const Place& place, const NormPart* part) {
  switch (rows) {
    case 1: return compute_block<1>(p, place, part);
    case 2: return compute_block<2>(p, place, part);
    case 3: return compute_block<3>(p, place, part);
    case 4: return compute_block<4>(p, place, part);
    case 5: return compute_block<5>(p, place, part);
    default: return compute_block<kRows>(p, place, part);
  }
}

}  // namespace

void compute_by_dots(const Product& p, const Strip& strip, const NormPart* part) {
  for (std::int64_t column = strip.column; column < strip.end_column; column += kTileRows) {
    for (std::int64_t done = 0; done < strip.rows; done += kRows) {
      const Place place{.x = strip.x + done * p.inner,
                        .y = p.y + (strip.row + done) * p.outer + column,
                        .column = column};
      compute_rows(std::min<std::int64_t>(strip.rows - done, kRows), p, place, part);
    }
  }
}

}  // namespace mezzo::kernels::pixels

#endif
