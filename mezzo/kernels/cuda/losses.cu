// Cross entropy and mean squared error, and their gradients. Losses and their sums are f32: in 16
// bits, a mean over a batch would stop growing.
#include "mezzo/kernels/cuda/reduce.cuh"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/losses_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

// The smoothed target distribution, from class indices or from given probabilities.
struct Targets {
  const std::int64_t* labels;  // null: `probabilities` are given
  const float* probabilities;
  float keep;    // 1 - smoothing
  float spread;  // smoothing / classes
  Report* report;

  // The target of class j for an example whose label is `label`.
  __device__ float of(std::int64_t example, std::int64_t j, std::int64_t classes,
                      std::int64_t label) const {
    const float given = labels == nullptr ? probabilities[example * classes + j]
                        : j == label      ? 1.0F
                                          : 0.0F;
    return fmaf(keep, given, spread);
  }
  __device__ std::int64_t label(std::int64_t example, std::int64_t classes) const {
    if (labels == nullptr) return -1;
    check_range(report, Fault::kLabel, example, labels[example], classes);
    return labels[example];
  }
};

// Reads N classes at a time.
template <int N, class T>
struct CrossEntropy {
  const T* logits;
  Targets targets;
  float* losses;
  float* statistics;  // per row: the largest logit, and the logarithm of the sum

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const T* x = logits + row * rows.size;
    float largest = -INFINITY;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) largest = fmaxf(largest, values[k]);
    });
    largest = Of::all(largest, LargestOf());
    float total = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) total += expf(values[k] - largest);
    });
    const float log_total = logf(Of::all(total, SumOf()));
    const std::int64_t label = targets.label(row, rows.size);
    float loss = 0;
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(x + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float target = targets.of(row, j + k, rows.size, label);
        // An excluded class may have a logit of -inf.
        if (target != 0.0F) loss -= target * (values[k] - largest - log_total);
      }
    });
    loss = Of::all(loss, SumOf());
    if (Of::lane() != 0) return;
    losses[row] = loss;
    statistics[2 * row] = largest;
    statistics[2 * row + 1] = log_total;
  }
};

template <int N, class T>
struct CrossEntropyGrad {
  const float* grad;
  std::int64_t grad_step;  // 0: one gradient for all examples
  float scale;
  const T* logits;
  Targets targets;
  const float* statistics;
  T* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const std::int64_t label = targets.label(row, rows.size);
    float mass = 1;  // exactly 1 for class indices, whatever the smoothed parts add up to
    if (targets.labels == nullptr) {
      mass = 0;
      for_packs<Of, 1>(rows.size,
                       [&](std::int64_t j) { mass += targets.of(row, j, rows.size, label); });
      mass = Of::all(mass, SumOf());
    }
    const float g = grad[row * grad_step] * scale;
    const float largest = statistics[2 * row];
    const float log_total = statistics[2 * row + 1];
    for_packs<Of, N>(rows.size, [&](std::int64_t j) {
      float values[N];
      load(logits + row * rows.size + j, values);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float probability = expf(values[k] - largest - log_total);
        values[k] = g * (probability * mass - targets.of(row, j + k, rows.size, label));
      }
      store(values, out + row * rows.size + j);
    });
  }
};

// Class indices as they are, probabilities as f32. 16-bit probabilities are rare, and kernels for
// each of their dtypes took nvcc longer than any other file.
Tensor dense_labels(const Tensor& labels) {
  return labels.rank() == 1 ? dense(labels, Format::kContiguous) : dense_f32(labels);
}

// `labels`: the result of dense_labels().
Targets targets_of(const Tensor& labels, const CrossEntropyAttrs& attrs, std::int64_t classes) {
  const bool is_numbers = labels.rank() == 1;
  return {is_numbers ? in<std::int64_t>(labels) : nullptr, is_numbers ? nullptr : in<float>(labels),
          static_cast<float>(1 - attrs.label_smoothing),
          static_cast<float>(attrs.label_smoothing / static_cast<double>(classes)),
          report_of(labels.device())};
}

Rows examples(const Tensor& logits) { return {logits.size(0), logits.size(1), 1}; }

Fold flat_reduction(std::int64_t terms) {
  return {Dims<3>(make_loop<3>(Shape{}, {})), Dims<1>(make_loop<1>({terms}, {Strides{1}})), 1,
          terms};
}

void run_cross_entropy(const KernelArgs& args) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const Tensor logits = dense(args.input(0), Format::kContiguous);
  const Tensor labels = dense_labels(args.input(1));
  const Targets targets = targets_of(labels, attrs, logits.size(1));
  const Launch launch(logits);
  const bool is_separate = attrs.reduction == Reduction::kNone;
  const Tensor losses =
      is_separate ? args.output()
                  : empty({logits.size(0)}, DType::kF32, Format::kContiguous, logits.device());
  visit_vector_dtype(logits.dtype(), [&]<class T>() {
    visit_packs<T>(logits.size(1), {logits.address()}, [&]<int N>() {
      for_dense_rows(launch,
                     CrossEntropy<N, T>{in<T>(logits), targets, out<float>(losses),
                                        out<float>(args.output(1))},
                     examples(logits));
    });
  });
  if (is_separate) return;
  const auto divisor = static_cast<float>(
      attrs.reduction == Reduction::kMean ? std::max<std::int64_t>(logits.size(0), 1) : 1);
  reduce(launch, SumTerms<float>{in<float>(losses), Results<float>(args.output()), divisor},
         flat_reduction(logits.size(0)));
}

void run_cross_entropy_grad(const KernelArgs& args) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const Tensor grad = dense_f32(args.input(0));
  const Tensor logits = dense(args.input(1), Format::kContiguous);
  const Tensor labels = dense_labels(args.input(2));
  const Tensor statistics = dense_f32(args.input(3));
  const Targets targets = targets_of(labels, attrs, logits.size(1));
  const Launch launch(logits);
  const std::int64_t step = attrs.reduction == Reduction::kNone ? 1 : 0;
  const auto scale = static_cast<float>(loss_scale(attrs.reduction, logits.size(0)));
  visit_vector_dtype(logits.dtype(), [&]<class T>() {
    T* to = out<T>(args.output());
    visit_packs<T>(logits.size(1), {logits.address(), to}, [&]<int N>() {
      for_dense_rows(launch,
                     CrossEntropyGrad<N, T>{in<float>(grad), step, scale, in<T>(logits), targets,
                                            in<float>(statistics), to},
                     examples(logits));
    });
  });
}

struct Square {
  __device__ float operator()(float a, float b) const { return (a - b) * (a - b); }
};

template <class T>
struct SquareTerms {
  const T* a;
  const T* b;
  float* out;
  float divisor;
  __device__ float start() const { return 0; }
  __device__ float combine(float x, float y) const { return x + y; }
  __device__ float term(std::int64_t at, std::int64_t, std::int64_t) const {
    return Square()(widen(a[at]), widen(b[at]));
  }
  __device__ void finish(float value, std::int64_t) const { *out = value / divisor; }
};

struct MseGradOfEach {
  __device__ float operator()(float a, float b, float grad) const { return 2 * (a - b) * grad; }
};
struct MseGradOfAll {
  const float* grad;
  float scale;
  __device__ float operator()(float a, float b) const { return 2 * (a - b) * (*grad * scale); }
};

void run_mse(const KernelArgs& args) {
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const bool is_separate = reduction == Reduction::kNone;
  const Format format = is_separate ? args.output().format() : args.input(0).format();
  const Tensor a = dense(args.input(0), format);
  const Tensor b = dense(args.input(1), format);
  const Launch launch(args.output());
  const auto divisor =
      static_cast<float>(reduction == Reduction::kMean ? std::max<std::int64_t>(a.numel(), 1) : 1);
  auto* loss = out<float>(args.output());
  visit_vector_dtype(a.dtype(), [&]<class T>() {
    if (is_separate) {
      map(launch, Square(), a.numel(), loss, in<T>(a), in<T>(b));
    } else {
      reduce(launch, SquareTerms<T>{in<T>(a), in<T>(b), loss, divisor}, flat_reduction(a.numel()));
    }
  });
}

void run_mse_grad(const KernelArgs& args) {
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const Tensor& output = args.output();
  const Launch launch(output);
  const Tensor a = dense(args.input(1), output.format());
  const Tensor b = dense(args.input(2), output.format());
  const bool is_separate = reduction == Reduction::kNone;
  const Tensor grad = dense_f32(args.input(0), is_separate ? output.format() : Format::kContiguous);
  const auto scale = static_cast<float>(loss_scale(reduction, output.numel()));
  visit_vector_dtype(output.dtype(), [&]<class T>() {
    if (is_separate) {
      map(launch, MseGradOfEach(), a.numel(), out<T>(output), in<T>(a), in<T>(b), in<float>(grad));
    } else {
      map(launch, MseGradOfAll{in<float>(grad), scale}, a.numel(), out<T>(output), in<T>(a),
          in<T>(b));
    }
  });
}

// Labels are integers, or floats like all other inputs.
Support labelled(const KernelArgs& args) {
  for (const Tensor* input : args.inputs) {
    const bool is_label = input->dtype() == DType::kI64;
    if (!is_label && !is_vector_dtype(input->dtype())) {
      return Support::no("only f32, bf16 and f16 are supported on GPUs");
    }
  }
  return Support::yes();
}

}  // namespace

extern const KernelList cross_entropy{{{{"cuda", labelled, run_cross_entropy}}}};
extern const KernelList cross_entropy_grad{{{{"cuda", labelled, run_cross_entropy_grad}}}};
extern const KernelList mse_loss{{{{"cuda", float_dtypes_only, run_mse}}}};
extern const KernelList mse_loss_grad{{{{"cuda", float_dtypes_only, run_mse_grad}}}};

}  // namespace mezzo::kernels::cuda
