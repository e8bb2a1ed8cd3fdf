// Checks, scales and measures lists of gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/optim/multi_tensor.cpp"
#include <atomic>
#include <bit>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/ranges.h"
#include "mezzo/kernels/cpu/optim/flat.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/update/flat_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using flat::Block;

// The bits of the smallest positive f32 that rounds to infinity in T: the largest number, and half
// a unit in its last place.
template <class T>
constexpr std::int32_t kInfinityBits =
    std::bit_cast<std::int32_t>(static_cast<float>(max_of(kDTypeOf<T>))) +
    (static_cast<std::int32_t>(epsilon_of(kDTypeOf<T>) * 0x1p23) + 1) / 2;
static_assert(kInfinityBits<float> == 0x7f800000 && kInfinityBits<BFloat16> == 0x7f7f8000 &&
              kInfinityBits<Float16> == 0x477ff000);

using I32 = hn::RebindToSigned<F32>;

// v| as an integer: ordered like the values, with NaN above infinity.
HWY_INLINE hn::Vec<I32> magnitude_bits(F32Vec v) { return hn::BitCast(I32(), hn::Abs(v)); }

// Calls use(v, i, count) for the vectors of [begin, end) of a block; the last is padded with zeros.
template <class T, class Use>
HWY_INLINE void for_vectors_of(const Block& block, std::int64_t begin, std::int64_t end,
                               const Use& use) {
  const T* const p = static_cast<const T*>(block.data);
  const std::int64_t i = for_whole_vectors(
      begin, end, [&](std::int64_t k, auto asks) HWY_ATTR { use(load(p + k, asks), k, lanes()); },
      block.count);
  if (i < end) use(load_part(p + i, end - i), i, end - i);
}

template <class T>
HWY_INLINE void store_some(F32Vec v, T* p, std::int64_t count) {
  if (count == lanes()) {
    store(v, p);
  } else {
    store_part(v, p, count);
  }
}

// How a check uses the factor.
enum class Product : std::uint8_t {
  kNone,     // there is no factor: the values themselves are checked
  kChecked,  // products are checked as f32 values, and not kept
  kKept,     // products are written back, and checked as stored
};

// True if every element of [begin, end) of a block, or its product with `factor`, is finite.
template <Product kProduct, class T>
bool check_range(const Block& block, std::int64_t begin, std::int64_t end, float factor) {
  using Checked = std::conditional_t<kProduct == Product::kChecked, float, T>;
  auto largest = hn::Zero(I32());
  const auto by = hn::Set(F32(), factor);
  T* const data = static_cast<T*>(block.data);
  for_vectors_of<T>(block, begin, end, [&](F32Vec v, std::int64_t i, std::int64_t count) HWY_ATTR {
    if constexpr (kProduct != Product::kNone) v = hn::Mul(v, by);
    largest = hn::Max(largest, magnitude_bits(v));
    if constexpr (kProduct == Product::kKept) store_some(v, data + i, count);
  });
  return hn::AllTrue(I32(), hn::Lt(largest, hn::Set(I32(), kInfinityBits<Checked>)));
}

// Atomically value = min(value, candidate).
void lower_to(std::atomic<std::size_t>& value, std::size_t candidate) {
  std::size_t before = value.load(std::memory_order_relaxed);
  while (candidate < before && !value.compare_exchange_weak(before, candidate)) {
  }
}

template <Product kProduct>
std::size_t check_blocks(std::span<const Block> blocks, float factor) {
  // Pieces let a thread stop early. With whole blocks, a thread that reads a large finite tensor
  // would go on long after another has found the answer.
  constexpr std::int64_t kPiece = 1 << 15;
  constexpr bool kMayStop = kProduct != Product::kKept;
  std::atomic<std::size_t> first{blocks.size()};
  kernels::for_ranges(blocks, kElementGrain,
                      [&](std::size_t index, std::int64_t begin, std::int64_t end) {
                        const Block& block = blocks[index];
                        for (std::int64_t from = begin; from < end; from += kPiece) {
                          if (kMayStop && index >= first.load(std::memory_order_relaxed)) return;
                          const std::int64_t to = std::min(from + kPiece, end);
                          kernels::visit_vector_dtype(block.dtype, [&]<class T>() {
                            if (check_range<kProduct, T>(block, from, to, factor)) return;
                            lower_to(first, index);
                          });
                        }
                      });
  return first.load();
}

std::size_t first_nonfinite(std::span<const Block> blocks) {
  return check_blocks<Product::kNone>(blocks, 1);
}

std::size_t first_nonfinite_product(std::span<const Block> blocks, float factor) {
  return check_blocks<Product::kChecked>(blocks, factor);
}

std::size_t scale(std::span<const Block> blocks, float factor) {
  return check_blocks<Product::kKept>(blocks, factor);
}

using F64 = hn::ScalableTag<double>;

// Adds the squares of v to both sums, which are spread over the lanes. There are two sums, so that
// one addition need not wait for the other. Squares of f32 are exact in f64.
HWY_INLINE void add_squares(F32Vec v, hn::Vec<F64>& low_sum, hn::Vec<F64>& high_sum) {
#if HWY_TARGET == HWY_SCALAR
  const auto low = hn::PromoteTo(F64(), v);
  const auto high = hn::Zero(F64());
#else
  using Half = hn::Rebind<float, F64>;
  const auto low = hn::PromoteTo(F64(), hn::LowerHalf(Half(), v));
  const auto high = hn::PromoteTo(F64(), hn::UpperHalf(Half(), v));
#endif
  low_sum = hn::MulAdd(low, low, low_sum);
  high_sum = hn::MulAdd(high, high, high_sum);
}

template <class T>
double sum_range(const Block& block, std::int64_t begin, std::int64_t end, float factor) {
  auto low = hn::Zero(F64());
  auto high = hn::Zero(F64());
  const auto by = hn::Set(F32(), factor);
  for_vectors_of<T>(block, begin, end, [&](F32Vec v, std::int64_t, std::int64_t) HWY_ATTR {
    add_squares(hn::Mul(v, by), low, high);
  });
  return hn::GetLane(hn::SumOfLanes(F64(), hn::Add(low, high)));
}

// Pieces of equal size are summed separately and added in order. So the result does not depend on
// the number of threads.
double sum_of_product_squares(std::span<const Block> blocks, float factor) {
  constexpr std::int64_t kPiece = 1 << 13;
  struct Piece {
    const Block* block;
    std::int64_t begin;
    double sum;
  };
  std::vector<Piece> pieces;
  for (const Block& block : blocks) {
    for (std::int64_t at = 0; at < block.count; at += kPiece) pieces.push_back({&block, at, 0});
  }
  parallel_for(static_cast<std::int64_t>(pieces.size()), kElementGrain / kPiece,
               [&](std::int64_t from, std::int64_t to) {
                 for (std::int64_t k = from; k < to; ++k) {
                   Piece& piece = pieces[static_cast<std::size_t>(k)];
                   const std::int64_t end = std::min(piece.begin + kPiece, piece.block->count);
                   kernels::visit_vector_dtype(piece.block->dtype, [&]<class T>() {
                     piece.sum = sum_range<T>(*piece.block, piece.begin, end, factor);
                   });
                 }
               });
  double total = 0;
  for (const Piece& piece : pieces) total += piece.sum;
  return total;
}

void clamp_blocks(std::span<const Block> blocks, float limit) {
  kernels::for_ranges(
      blocks, kElementGrain, [&](std::size_t index, std::int64_t begin, std::int64_t end) {
        kernels::visit_vector_dtype(blocks[index].dtype, [&]<class T>() {
          T* data = static_cast<T*>(blocks[index].data);
          for_vectors_of<T>(blocks[index], begin, end,
                            [&](F32Vec v, std::int64_t i, std::int64_t count) HWY_ATTR {
                              const auto most = hn::Set(F32(), limit);
                              const auto bounded = hn::CopySign(most, v);
                              // The comparison with NaN is false, so NaN stays.
                              store_some(hn::IfThenElse(hn::Gt(hn::Abs(v), most), bounded, v),
                                         data + i, count);
                            });
        });
      });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::flat::cpu {
namespace {

HWY_EXPORT(first_nonfinite);
HWY_EXPORT(first_nonfinite_product);
HWY_EXPORT(scale);
HWY_EXPORT(sum_of_product_squares);
HWY_EXPORT(clamp_blocks);

}  // namespace

std::size_t first_nonfinite(std::span<const Block> blocks) {
  return HWY_DYNAMIC_DISPATCH(first_nonfinite)(blocks);
}
std::size_t first_nonfinite_product(std::span<const Block> blocks, float factor) {
  return HWY_DYNAMIC_DISPATCH(first_nonfinite_product)(blocks, factor);
}
std::size_t scale(std::span<const Block> blocks, float factor) {
  return HWY_DYNAMIC_DISPATCH(scale)(blocks, factor);
}
double sum_of_product_squares(std::span<const Block> blocks, float factor) {
  return HWY_DYNAMIC_DISPATCH(sum_of_product_squares)(blocks, factor);
}
double sum_of_squares(std::span<const Block> blocks) { return sum_of_product_squares(blocks, 1); }
void clamp_blocks(std::span<const Block> blocks, float limit) {
  HWY_DYNAMIC_DISPATCH(clamp_blocks)(blocks, limit);
}

}  // namespace mezzo::flat::cpu
#endif
