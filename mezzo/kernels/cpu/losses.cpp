// Cross entropy and squared error: one pass over the predictions forward, one backward.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/losses.cpp"
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/losses_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// Calls f(i, x) for the elements of a row: i counts elements, x is a vector of them. Elements past
// the end are `fill`.
template <class T, class Function>
HWY_INLINE void for_row(const T* x, std::int64_t n, float fill, const Function& f) {
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= n; i += step) f(i, load(x + i));
  if (i < n) {
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(n - i));
    f(i, hn::IfThenElse(valid, load_part(x + i, n - i), number(fill)));
  }
}

HWY_INLINE float sum_lanes(F32Vec v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

struct Row {
  float largest;
  float log_total;
};

template <class T>
Row row_statistics(const T* x, std::int64_t n) {
  const float lowest = -std::numeric_limits<float>::infinity();
  F32Vec largest = number(lowest);
  for_row(x, n, lowest, [&](std::int64_t, F32Vec v) HWY_ATTR { largest = hn::Max(largest, v); });
  largest = hn::MaxOfLanes(F32(), largest);
  F32Vec total = hn::Zero(F32());
  double blocks = 0;  // f64 between blocks: one f32 sum over a long vocabulary would lose its tail
  for_row(x, n, lowest, [&](std::int64_t i, F32Vec v) HWY_ATTR {
    total = hn::Add(total, exp(hn::Sub(v, largest)));
    if (i % (64 * kMaxLanes) == 63 * kMaxLanes) {
      blocks += sum_lanes(total);
      total = hn::Zero(F32());
    }
  });
  const auto sum = static_cast<float>(blocks + sum_lanes(total));
  return {hn::GetLane(largest), hn::GetLane(log(number(sum)))};
}

// The loss of a row whose target is (1 - smoothing) * one_hot(label) + smoothing / n.
template <class T>
double loss_of_label(const T* x, std::int64_t n, std::int64_t label, double smoothing, Row row) {
  // The maximum is subtracted first: otherwise log-probabilities of large logits would cancel.
  const auto log_probability = [&](float v) { return double{v - row.largest} - row.log_total; };
  double loss = 0;  // with a weight of 0, an infinite log-probability must not count
  if (smoothing < 1) loss = -(1 - smoothing) * log_probability(static_cast<float>(x[label]));
  if (smoothing > 0) {
    F32Vec total = hn::Zero(F32());
    for_row(x, n, row.largest, [&](std::int64_t, F32Vec v) HWY_ATTR {
      total = hn::Add(total, hn::Sub(v, number(row.largest)));
    });
    const auto count = static_cast<double>(n);
    loss -= smoothing / count * (double{sum_lanes(total)} - count * row.log_total);
  }
  return loss;
}

// The loss of a row whose target is (1 - smoothing) * q + smoothing / n.
template <class T>
double loss_of_probabilities(const T* x, const float* q, std::int64_t n, double smoothing,
                             Row row) {
  const auto keep = number(static_cast<float>(1 - smoothing));
  const auto share = number(static_cast<float>(smoothing / static_cast<double>(n)));
  F32Vec total = hn::Zero(F32());
  for_row(q, n, 0, [&](std::int64_t i, F32Vec v) HWY_ATTR {
    const auto logits = n - i >= lanes() ? load(x + i) : load_part(x + i, n - i);
    const auto target = hn::MulAdd(v, keep, share);
    const auto log_probability =
        hn::Sub(hn::Sub(logits, number(row.largest)), number(row.log_total));
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(n - i));
    // 0 * log 0 is 0: an impossible class that does not occur costs nothing. Not Ne(), which is
    // false for NaN.
    const auto counts = hn::AndNot(hn::Eq(target, hn::Zero(F32())), valid);
    total = hn::Add(total, hn::IfThenElseZero(counts, hn::Mul(target, log_probability)));
  });
  return -double{sum_lanes(total)};
}

// The labels of a call: class indices, or probabilities as dense f32.
struct Labels {
  const std::int64_t* numbers = nullptr;
  const float* probabilities = nullptr;
  Tensor keep;

  explicit Labels(const Tensor& labels) {
    const bool are_numbers = labels.dtype() == DType::kI64;
    keep = are_numbers ? kernels::dense(labels, Format::kContiguous) : kernels::dense_f32(labels);
    if (are_numbers) {
      numbers = keep.data<std::int64_t>();
    } else {
      probabilities = keep.data<float>();
    }
  }
};

template <class T>
void cross_entropy_typed(const KernelArgs& args, const T* logits, const Labels& labels) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const Shape& shape = args.input(0).shape();
  const std::int64_t n = shape[0];
  const std::int64_t classes = shape[1];
  const double smoothing = attrs.label_smoothing;
  auto* rows = args.output(1).mutable_data<float>();
  std::vector<double> losses(static_cast<std::size_t>(n));
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 4 / classes);
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* x = logits + i * classes;
      const Row row = row_statistics(x, classes);
      rows[2 * i] = row.largest;
      rows[2 * i + 1] = row.log_total;
      losses[static_cast<std::size_t>(i)] =
          labels.numbers != nullptr
              ? loss_of_label(x, classes,
                              checked_label(labels.numbers[i], i, classes, "cross_entropy"),
                              smoothing, row)
              : loss_of_probabilities(x, labels.probabilities + i * classes, classes, smoothing,
                                      row);
    }
  });
  auto* loss = args.output(0).mutable_data<float>();
  if (attrs.reduction == Reduction::kNone) {
    std::copy(losses.begin(), losses.end(), loss);
    return;
  }
  double total = 0;
  for (const double of_example : losses) total += of_example;
  *loss = static_cast<float>(total * loss_scale(attrs.reduction, n));
}

// The target of one row: a distribution q, or a label if q is null; then smoothed.
struct Target {
  const float* q;
  std::int64_t label;
  double smoothing;
};

// out = g * (probability * mass - target) for one row.
template <class T>
void grad_row(const T* x, T* out, std::int64_t n, Row row, float g, const Target& wanted) {
  const float* q = wanted.q;
  const double smoothing = wanted.smoothing;
  const auto share_of_class = static_cast<float>(smoothing / static_cast<double>(n));
  const auto share = number(share_of_class);
  const auto keep = number(static_cast<float>(1 - smoothing));
  auto mass = number(1.0F);  // of the target; probabilities need not add up to 1
  if (q != nullptr) {
    F32Vec total = hn::Zero(F32());
    for_row(q, n, 0, [&](std::int64_t, F32Vec v) HWY_ATTR { total = hn::Add(total, v); });
    mass = hn::MulAdd(keep, hn::SumOfLanes(F32(), total), number(static_cast<float>(smoothing)));
  }
  for_row(x, n, 0, [&](std::int64_t i, F32Vec v) HWY_ATTR {
    const bool whole = n - i >= lanes();
    const auto probability = exp(hn::Sub(hn::Sub(v, number(row.largest)), number(row.log_total)));
    auto target = share;
    if (q != nullptr) {
      target = hn::MulAdd(keep, whole ? load(q + i) : load_part(q + i, n - i), share);
    }
    const auto grad = hn::Mul(number(g), hn::Sub(hn::Mul(probability, mass), target));
    if (whole) {
      store(grad, out + i);
    } else {
      store_part(grad, out + i, n - i);
    }
  });
  if (q == nullptr) {
    const float v = static_cast<float>(x[wanted.label]);
    const float p =
        hn::GetLane(exp(hn::Sub(hn::Sub(number(v), number(row.largest)), number(row.log_total))));
    out[wanted.label] = T(g * (p - static_cast<float>(1 - smoothing) - share_of_class));
  }
}

}  // namespace

void cross_entropy(const KernelArgs& args) {
  const Tensor logits = kernels::dense(args.input(0), Format::kContiguous);
  const Labels labels(args.input(1));
  kernels::visit_vector_dtype(
      logits.dtype(), [&]<class T>() { cross_entropy_typed(args, logits.data<T>(), labels); });
}

void cross_entropy_grad(const KernelArgs& args) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const Tensor grad = kernels::dense_f32(args.input(0));
  const Tensor logits = kernels::dense(args.input(1), Format::kContiguous);
  const Labels labels(args.input(2));
  const Tensor statistics = kernels::dense_f32(args.input(3));
  const std::int64_t n = logits.shape()[0];
  const std::int64_t classes = logits.shape()[1];
  const auto scale = static_cast<float>(loss_scale(attrs.reduction, n));
  const std::int64_t grad_step = attrs.reduction == Reduction::kNone ? 1 : 0;
  const auto* grads = grad.data<float>();
  const auto* rows = statistics.data<float>();
  kernels::visit_vector_dtype(logits.dtype(), [&]<class T>() {
    const T* x = logits.data<T>();
    T* out = args.output().mutable_data<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 4 / classes);
    parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* q = labels.probabilities;
        const std::int64_t label =
            q != nullptr ? 0 : checked_label(labels.numbers[i], i, classes, "cross_entropy_grad");
        grad_row(x + i * classes, out + i * classes, classes, Row{rows[2 * i], rows[2 * i + 1]},
                 grads[i * grad_step] * scale,
                 Target{q != nullptr ? q + i * classes : nullptr, label, attrs.label_smoothing});
      }
    });
  });
}

namespace {

// The sum of squared differences: f32 within a block, f64 across blocks.
template <class T>
double sum_of_squares(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t kBlock = 4096;
  const std::int64_t blocks = ceil_div(n, kBlock);
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  parallel_for(blocks, kElementGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kBlock;
      const std::int64_t count = std::min(kBlock, n - first);
      F32Vec total = hn::Zero(F32());
      for_row(a + first, count, 0, [&](std::int64_t i, F32Vec v) HWY_ATTR {
        const T* p = b + first + i;
        const auto d = hn::Sub(v, count - i >= lanes() ? load(p) : load_part(p, count - i));
        total = hn::MulAdd(d, d, total);
      });
      sums[static_cast<std::size_t>(block)] = sum_lanes(total);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

void mse_loss(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const bool separate = reduction == Reduction::kNone;
  const Format format = separate ? out.format() : args.input(0).format();
  const Tensor a = kernels::dense(args.input(0), format);
  const Tensor b = kernels::dense(args.input(1), format);
  kernels::visit_vector_dtype(a.dtype(), [&]<class T>() {
    auto* loss = out.mutable_data<float>();
    if (!separate) {
      const double total = sum_of_squares(a.data<T>(), b.data<T>(), a.numel());
      *loss = static_cast<float>(total * loss_scale(reduction, a.numel()));
      return;
    }
    map(a.data<T>(), b.data<T>(), loss, a.numel(), [](F32Vec x, F32Vec y) HWY_ATTR {
      const auto d = hn::Sub(x, y);
      return hn::Mul(d, d);
    });
  });
}

namespace {

// out = (a - b) * (grads * factor), element by element.
template <class T>
void scale_differences(const T* a, const T* b, const float* grads, T* out, std::int64_t n,
                       float factor) {
  for_vectors(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for_row(a + begin, end - begin, 0, [&](std::int64_t offset, F32Vec x) HWY_ATTR {
      const std::int64_t i = begin + offset;
      const std::int64_t left = end - i;
      const bool whole = left >= lanes();
      const auto y = whole ? load(b + i) : load_part(b + i, left);
      const auto g = whole ? load(grads + i) : load_part(grads + i, left);
      const auto result = hn::Mul(hn::Sub(x, y), hn::Mul(g, number(factor)));
      if (whole) {
        store(result, out + i);
      } else {
        store_part(result, out + i, left);
      }
    });
  });
}

}  // namespace

void mse_loss_grad(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const bool separate = reduction == Reduction::kNone;
  const Tensor a = kernels::dense(args.input(1), out.format());
  const Tensor b = kernels::dense(args.input(2), out.format());
  const Tensor grad =
      kernels::dense_f32(args.input(0), separate ? out.format() : Format::kContiguous);
  const auto factor = static_cast<float>(2 * loss_scale(reduction, out.numel()));
  const auto* grads = grad.data<float>();
  kernels::visit_vector_dtype(out.dtype(), [&]<class T>() {
    T* to = out.mutable_data<T>();
    if (separate) {
      scale_differences(a.data<T>(), b.data<T>(), grads, to, out.numel(), factor);
      return;
    }
    const float scale = *grads * factor;
    map(a.data<T>(), b.data<T>(), to, out.numel(),
        [scale](F32Vec x, F32Vec y) HWY_ATTR { return hn::Mul(hn::Sub(x, y), number(scale)); });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(cross_entropy);
HWY_EXPORT(cross_entropy_grad);
HWY_EXPORT(mse_loss);
HWY_EXPORT(mse_loss_grad);

// Labels are the only integers.
Support supports_cross_entropy(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    if (!is_vector_dtype(input->dtype()) && input->dtype() != DType::kI64) {
      return Support::no("only f32, bf16 and f16 logits are vectorised");
    }
  }
  return Support::yes();
}

}  // namespace

extern const KernelList cross_entropy{
    {{{"cpu_simd", supports_cross_entropy, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(cross_entropy)(args);
       }}}}};
extern const KernelList cross_entropy_grad{
    {{{"cpu_simd", supports_cross_entropy, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(cross_entropy_grad)(args);
       }}}}};
extern const KernelList mse_loss{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                      HWY_DYNAMIC_DISPATCH(mse_loss)(args);
                                    }}}}};
extern const KernelList mse_loss_grad{
    {{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(mse_loss_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
