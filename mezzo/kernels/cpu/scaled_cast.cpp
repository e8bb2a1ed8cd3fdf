// Rounding to eight bits: the largest absolute value of each group of elements that share a scale,
// then the elements themselves. Groups that fit in the caches are read from memory once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/scaled_cast.cpp"
#include <atomic>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/float8-inl.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/scaled_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// Columns that are handled together where scales lie along columns: whole cache lines of every row.
constexpr std::int64_t kStripe = 64;

// The patterns of absolute values, which are ordered like the values; a NaN's is the largest.
HWY_INLINE hn::Vec<I32> magnitude_of(F32Vec v) {
  return hn::And(hn::BitCast(I32(), v), hn::Set(I32(), 0x7fffffff));
}

template <class In>
std::int32_t largest_pattern(const In* x, std::int64_t n) {
  auto most = hn::Zero(I32());
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) most = hn::Max(most, magnitude_of(load(x + i)));
  if (i < n) most = hn::Max(most, magnitude_of(load_part(x + i, n - i)));
  return hn::GetLane(hn::MaxOfLanes(I32(), most));
}

template <class In, class Out>
void round_by_one(const In* x, std::int64_t n, float factor, Out* out) {
  const auto times = hn::Set(F32(), factor);
  const std::int64_t i = for_whole_vectors(0, n, [&](std::int64_t k, auto asks) HWY_ATTR {
    store<true>(hn::Mul(load(x + k, asks), times), out + k, asks);
  });
  if (i < n) store_part<true>(hn::Mul(load_part(x + i, n - i), times), out + i, n - i);
}

template <class In, class Out>
void round_by_many(const In* x, std::int64_t n, const float* factors, Out* out) {
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) {
    store<true>(hn::Mul(load(x + i), load(factors + i)), out + i);
  }
  if (i < n) {
    store_part<true>(hn::Mul(load_part(x + i, n - i), load_part(factors + i, n - i)), out + i,
                     n - i);
  }
}

template <class In, class Out>
class Rounding {
 public:
  explicit Rounding(const KernelArgs& args)
      : attrs_(args.attrs<ScaledCastAttrs>()),
        source_(kernels::dense(args.input(0), Format::kContiguous)),
        args_(args),
        rows_(source_.size(0)),
        columns_(source_.size(1)),
        x_(source_.data<In>()),
        codes_(args.output(0).mutable_data<Out>()) {}

  void run() const {
    if (attrs_.by == ScaleBy::kTensor) return by_tensor();
    if (attrs_.columns) return along_columns();
    attrs_.by == ScaleBy::kLine ? by_rows() : by_blocks_of_rows();
  }

 private:
  float largest() const { return static_cast<float>(max_of(attrs_.dtype)); }

  std::int32_t largest_of_all() const {
    std::atomic<std::int32_t> most{0};
    parallel_for(rows_ * columns_, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      const std::int32_t own = largest_pattern(x_ + begin, end - begin);
      std::int32_t seen = most.load(std::memory_order_relaxed);
      while (seen < own && !most.compare_exchange_weak(seen, own, std::memory_order_relaxed)) {
      }
    });
    return most.load();
  }

  void by_tensor() const {
    const auto amax = std::bit_cast<float>(largest_of_all());
    const float factor = args_.has(1) ? kernels::dense_f32(args_.input(1)).data<float>()[0]
                                      : scale_for(amax, largest(), 1);
    parallel_for(rows_ * columns_, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      round_by_one(x_ + begin, end - begin, factor, codes_ + begin);
    });
    args_.output(1).mutable_data<float>()[0] = 1 / factor;
    args_.output(2).mutable_data<float>()[0] = amax;
  }

  template <class Body>
  void for_rows(const Body& body) const {
    const std::int64_t grain = kElementGrain / (columns_ + 1) + 1;
    parallel_for(rows_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }

  void by_rows() const {
    auto* const scales = args_.output(1).mutable_data<float>();
    for_rows([&](std::int64_t row) {
      const In* const x = x_ + row * columns_;
      const auto amax = std::bit_cast<float>(largest_pattern(x, columns_));
      const float factor = scale_for(amax, largest(), 1);
      round_by_one(x, columns_, factor, codes_ + row * columns_);
      scales[row] = 1 / factor;
    });
  }

  void by_blocks_of_rows() const {
    auto* const scales = args_.output(1).mutable_data<std::uint8_t>();
    const std::int64_t blocks = ceil_div(columns_, kBlock);
    for_rows([&](std::int64_t row) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t at = row * columns_ + b * kBlock;
        const std::int64_t count = std::min(kBlock, columns_ - b * kBlock);
        const auto amax = std::bit_cast<float>(largest_pattern(x_ + at, count));
        const std::uint8_t code = block_code(amax, attrs_.dtype);
        round_by_one(x_ + at, count, block_factor(code), codes_ + at);
        scales[row * blocks + b] = code;
      }
    });
  }

  void along_columns() const {
    const bool by_line = attrs_.by == ScaleBy::kLine;
    const std::int64_t height = by_line ? rows_ : kBlock;
    const std::int64_t bands = by_line ? 1 : ceil_div(rows_, kBlock);
    const std::int64_t stripes = ceil_div(columns_, kStripe);
    const std::int64_t grain = kElementGrain / (height * kStripe + 1) + 1;
    parallel_for(bands * stripes, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / stripes * height;
        const std::int64_t column = i % stripes * kStripe;
        stripe(row, std::min(height, rows_ - row), column, std::min(kStripe, columns_ - column));
      }
    });
  }

  // A group of `height` elements for each of up to kStripe columns.
  void stripe(std::int64_t row, std::int64_t height, std::int64_t column,
              std::int64_t width) const {
    const In* const x = x_ + row * columns_ + column;
    alignas(64) std::int32_t most[kStripe] = {};
    for (std::int64_t r = 0; r < height; ++r) raise(x + r * columns_, width, most);
    alignas(64) float factors[kStripe];
    for (std::int64_t c = 0; c < width; ++c) {
      factors[c] = take_factor(std::bit_cast<float>(most[c]), row, column + c);
    }
    Out* const out = codes_ + row * columns_ + column;
    for (std::int64_t r = 0; r < height; ++r) {
      round_by_many(x + r * columns_, width, factors, out + r * columns_);
    }
  }

  static void raise(const In* x, std::int64_t width, std::int32_t* most) {
    std::int64_t c = 0;
    for (; c + lanes() <= width; c += lanes()) {
      const auto seen = hn::Load(I32(), most + c);
      hn::Store(hn::Max(seen, magnitude_of(load(x + c))), I32(), most + c);
    }
    for (; c < width; ++c) {
      const std::int32_t own = std::bit_cast<std::int32_t>(std::abs(static_cast<float>(x[c])));
      most[c] = std::max(most[c], own);
    }
  }

  // The factor of a column's group, whose scale is written.
  float take_factor(float amax, std::int64_t row, std::int64_t column) const {
    if (attrs_.by == ScaleBy::kLine) {
      const float factor = scale_for(amax, largest(), 1);
      args_.output(1).mutable_data<float>()[column] = 1 / factor;
      return factor;
    }
    const std::uint8_t code = block_code(amax, attrs_.dtype);
    args_.output(1).mutable_data<std::uint8_t>()[row / kBlock * columns_ + column] = code;
    return block_factor(code);
  }

  const ScaledCastAttrs& attrs_;
  Tensor source_;
  const KernelArgs& args_;
  std::int64_t rows_;
  std::int64_t columns_;
  const In* x_;
  Out* codes_;
};

}  // namespace

void scaled_cast(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(0).dtype(), [&]<class In>() {
    if (args.output(0).dtype() == DType::kE4m3) {
      Rounding<In, Float8E4M3>(args).run();
    } else {
      Rounding<In, Float8E5M2>(args).run();
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(scaled_cast);

}  // namespace

extern const KernelList scaled_cast = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(scaled_cast)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
