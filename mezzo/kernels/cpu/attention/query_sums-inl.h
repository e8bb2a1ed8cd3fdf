// Sums over the keys of each query of a tile, for the gradient. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_QUERY_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_QUERY_SUMS_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_QUERY_SUMS_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_QUERY_SUMS_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/grad_unit.h"
#include "mezzo/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

using kernels::attention::GradTensors;

// The sum over c of a[c] b[c], in f32.
template <class T>
float row_dot(const T* a, const T* b, std::int64_t n) {
  auto sum = hn::Zero(F32());
  for_row(n, [&](std::int64_t c, auto part)
                 HWY_ATTR { sum = hn::MulAdd(load(a + c, part), load(b + c, part), sum); });
  return hn::GetLane(hn::SumOfLanes(F32(), sum));
}

template <class T>
struct QuerySums {
  alignas(64) float lse[kTileQueries];   // log of the sum of exp(score)
  alignas(64) float mean[kTileQueries];  // sum of a probability times its gradient

  // Takes the queries of that place.
  void set(const GradTensors& tensors, const TilePlace& place, const AttentionSizes& sizes) {
    const T* grad = tensors.grad.at<T>(place.sample, place.query, place.head);
    const T* result = tensors.result.at<T>(place.sample, place.query, place.head);
    const std::int64_t row = (place.sample * sizes.heads + place.head) * sizes.queries;
    // Probabilities of columns beyond the queries are 0.
    std::fill_n(lse, kTileQueries, kInfinite);
    std::fill_n(mean, kTileQueries, 0.0F);
    std::copy_n(tensors.lse.data<float>() + row + place.query, place.queries, lse);
    for (std::int64_t i = 0; i < place.queries; ++i) {
      mean[i] = row_dot(grad, result, sizes.values);
      grad += tensors.grad.position;
      result += tensors.result.position;
    }
  }
};

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
