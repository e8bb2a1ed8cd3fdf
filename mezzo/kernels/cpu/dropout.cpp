// Dropout. The mask comes directly from a vectorised Philox4x32-10 (core/random.h), one counter per
// lane, and is never stored in memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/dropout.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/philox-inl.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/dropout_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// The rule for an element: it is kept and scaled unless the upper 24 bits of its word are below the
// threshold. For p = 1 no element is kept, and the scale, which is then infinite, is not used.
struct Rule {
  std::int32_t threshold;
  float scale;

  explicit Rule(const DropoutAttrs& attrs)
      : threshold(static_cast<std::int32_t>(attrs.threshold())),  // at most 2^24
        scale(static_cast<float>(1 / (1 - attrs.p))) {}

  HWY_INLINE F32Vec apply(F32Vec x, const std::uint32_t* words) const {
    const U32 u32;
    const hn::RebindToSigned<F32> i32;
    const auto unit = hn::BitCast(i32, hn::ShiftRight<8>(hn::LoadU(u32, words)));
    const auto keep = hn::RebindMask(F32(), hn::Gt(unit, hn::Set(i32, threshold - 1)));
    return hn::IfThenElseZero(keep, hn::Mul(x, hn::Set(F32(), scale)));
  }
};

// Drops up to 4 * lanes() elements by the words of one group.
template <class T>
void drop_group(const T* in, T* out, std::int64_t n, const std::uint32_t* words, const Rule& rule) {
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes()) store(rule.apply(load(in + i), words + i), out + i);
  if (i < n) store_part(rule.apply(load_part(in + i, n - i), words + i), out + i, n - i);
}

template <class T>
void drop(const T* in, T* out, std::int64_t n, const Rule& rule, RandomPosition place) {
  const std::int64_t group = 4 * lanes();
  const std::int64_t groups = ceil_div(n, group);
  parallel_for(groups, kElementGrain / 4 / group, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint32_t words[kPhiloxWords];
    for (std::int64_t g = begin; g < end; ++g) {
      const auto block = static_cast<std::uint64_t>(g * lanes());
      philox_words(place, place.offset / 4 + block, words);
      const std::int64_t first = g * group;
      drop_group(in + first, out + first, std::min(group, n - first), words, rule);
    }
  });
}

}  // namespace

void dropout(const KernelArgs& args) {
  const auto& attrs = args.attrs<DropoutAttrs>();
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), attrs.format);
  const Tensor start = args.has(1) ? kernels::dense(args.input(1), Format::kContiguous) : Tensor();
  const RandomPosition place = attrs.place(start.defined() ? start.data<std::int64_t>() : nullptr);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    drop(x.data<T>(), out.mutable_data<T>(), x.numel(), Rule(attrs), place);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(dropout);

// The second input is a position in the random stream.
Support supports(const KernelArgs& args) {
  return vector_dtypes_only({args.inputs.first(1), args.outputs, args.attributes});
}

}  // namespace

extern const KernelList dropout{{{{"cpu_simd", supports, [](const KernelArgs& args) {
                                     HWY_DYNAMIC_DISPATCH(dropout)(args);
                                   }}}}};

}  // namespace mezzo::kernels::cpu
#endif
