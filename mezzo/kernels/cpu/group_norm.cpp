// Group normalization and its gradient, sample by sample. One pass computes sums per channel, which
// are combined for groups; a second one goes over the same pixels. They are still in the caches
// then, unless images are large.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/group_norm.cpp"
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/norm/channel_statistics-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/rstd.h"
#include "mezzo/ops/group_norm_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// The samples of x, and the rows of one of them. If there are samples for all threads, each thread
// takes whole ones; otherwise the threads share the rows of every sample.
struct Samples {
  GroupSizes sizes;
  ChannelRows rows;
  std::int64_t workers = 1;

  Samples(const Shape& x, std::int64_t groups)
      : sizes(x, groups), rows({1, sizes.channels, sizes.pixels, 1}, lanes(), kElementGrain) {
    const std::int64_t threads = num_threads();
    if (sizes.samples < threads) return;
    rows.parts = 1;
    workers = std::clamp<std::int64_t>(x.numel() / kElementGrain, 1, threads);
  }

  std::int64_t size() const { return sizes.channels * sizes.pixels; }
  // Calls work(worker, first, last) for the samples [first, last) of each worker.
  void for_workers(
      FunctionRef<void(std::int64_t worker, std::int64_t first, std::int64_t last)> work) const {
    parallel_for(workers, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t worker = begin; worker < end; ++worker) {
        work(worker, sizes.samples * worker / workers, sizes.samples * (worker + 1) / workers);
      }
    });
  }
  // Calls body(i, c, part) for the vectors of a sample: each begins at element i of the sample and
  // element c of a row.
  template <class Body>
  HWY_INLINE void for_vectors(const Body& body) const {
    parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) HWY_ATTR {
      const std::int64_t begin = rows.first_row(static_cast<int>(first));
      const std::int64_t end = rows.first_row(static_cast<int>(last));
      for_rows_backwards(rows, begin, end, [&](std::int64_t row) HWY_ATTR {
        for_row(rows.count(row),
                [&](std::int64_t c, auto part) HWY_ATTR { body(row * rows.width() + c, c, part); });
      });
    });
  }
};

struct GroupStatistics {
  float mean;
  float rstd;
};

// The statistics of a group from those of its channels, which have equally many elements. The
// variance is the mean of the channels' variances plus the variance of their means. Computed in
// f64, since there are few channels.
inline GroupStatistics join_channels(const float* means, const float* vars, std::int64_t count,
                                     double eps) {
  const auto share = 1 / static_cast<double>(count);
  double mean = 0;
  for (std::int64_t c = 0; c < count; ++c) mean += share * means[c];
  double var = 0;
  for (std::int64_t c = 0; c < count; ++c) {
    const double off = means[c] - mean;
    var += share * (vars[c] + off * off);
  }
  const auto in_f32 = static_cast<float>(var);  // f32, where it may be infinite, as elsewhere
  return {static_cast<float>(mean),
          static_cast<float>(kernels::rstd_of(var, eps)) + (in_f32 - in_f32)};
}

// The tensors of a call.
template <class T>
struct GroupNormTensors {
  const T* x;
  T* y;
  Tensor weight, bias;
  float* means;
  float* rstds;
};

// The arrays of a sample's channels. join_groups() replaces each channel's mean and variance by its
// group's mean and factor.
enum GroupArray : std::int64_t { kMean, kVar, kWeight, kScale, kBias, kGroupArrays };

template <class T>
void join_groups(const GroupNormTensors<T>& t, const GroupSizes& sizes, std::int64_t sample,
                 double eps, const RowArrays& a) {
  const std::int64_t count = sizes.group_channels();
  for (std::int64_t group = 0; group < sizes.groups; ++group) {
    const std::int64_t first = group * count;
    const GroupStatistics found = join_channels(a[kMean] + first, a[kVar] + first, count, eps);
    for (std::int64_t c = first; c < first + count; ++c) {
      a[kMean][c] = found.mean;
      a[kScale][c] = found.rstd * a[kWeight][c];
    }
    t.means[sample * sizes.groups + group] = found.mean;
    t.rstds[sample * sizes.groups + group] = found.rstd;
  }
}

template <class T>
void normalize_samples(const GroupNormTensors<T>& t, const Samples& samples, double eps,
                       std::int64_t begin, std::int64_t end) {
  const ChannelRows& rows = samples.rows;
  const RowArrays parts(rows, rows.parts * kPartArrays);
  const RowArrays a(rows, kGroupArrays);
  load_channels(rows, t.weight, 1, a[kWeight]);
  load_channels(rows, t.bias, 0, a[kBias]);
  const float* means = a[kMean];
  const float* scales = a[kScale];
  const float* biases = a[kBias];
  for (std::int64_t sample = begin; sample < end; ++sample) {
    const T* x = t.x + sample * samples.size();
    T* y = t.y + sample * samples.size();
    channel_statistics(x, rows, parts, a[kMean], a[kVar]);
    join_groups(t, samples.sizes, sample, eps, a);
    spread(rows, a[kMean]);
    spread(rows, a[kScale]);
    samples.for_vectors([&](std::int64_t i, std::int64_t c, auto part) HWY_ATTR {
      store(normalize(load(x + i, part), load(means + c), load(scales + c), load(biases + c)),
            y + i, part);
    });
  }
}

void group_norm(const KernelArgs& args) {
  using In = GroupNormInput;
  const auto& attrs = args.attrs<GroupNormAttrs>();
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(In::kX), out.format());
  const Samples samples(x.shape(), attrs.groups);
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const GroupNormTensors<T> tensors{x.data<T>(),
                                      out.mutable_data<T>(),
                                      args.input(In::kWeight),
                                      args.input(In::kBias),
                                      args.output(1).mutable_data<float>(),
                                      args.output(2).mutable_data<float>()};
    samples.for_workers([&](std::int64_t, std::int64_t first, std::int64_t last) {
      normalize_samples(tensors, samples, attrs.eps, first, last);
    });
  });
}

template <class T>
struct GroupGradTensors {
  const T* grad;
  const T* x;
  T* grad_x;  // may be grad: an element is read before it is written
};

// The arrays of the gradient, with a value for each element of a row. grad_x = scale * grad + (x -
// mean) * slope + constant.
enum GroupGradArray : std::int64_t {
  kGroupMean,
  kGroupWeight,
  kGradScale,
  kGradSlope,
  kGradConstant,
  kGradSum,       // sums of a sample's gradients
  kGradProducts,  // sums of their products with x - mean
  kGroupGradArrays
};
// The arrays of a part of the rows.
enum GroupSumArray : std::int64_t {
  kPartSum,
  kPartProducts,
  kChunkOfSum,
  kChunkOfProducts,
  kSumCount
};

template <class T>
void sum_group_part(const GroupGradTensors<T>& t, const float* means, const ChannelRows& rows,
                    const RowArrays& sums, int part) {
  const std::int64_t width = rows.width();
  const std::int64_t first = part * kSumCount;
  for (std::int64_t i = 0; i < kSumCount; ++i) sums.clear(first + i);
  const ChannelSums to{sums[first + kPartSum], sums[first + kPartProducts],
                       sums[first + kChunkOfSum], sums[first + kChunkOfProducts]};
  const auto add = [&](std::int64_t row, std::int64_t group, std::int64_t count) HWY_ATTR {
    for_row(count, [&](std::int64_t c, auto some) HWY_ATTR {
      const auto mean = load(means + c);
      auto sum = load(to.chunk_first + c);
      auto products = load(to.chunk_second + c);
      for (std::int64_t r = 0; r < group; ++r) {
        const std::int64_t i = (row + r) * width + c;
        const auto grad = load(t.grad + i, some);  // 0 beyond the end
        sum = hn::Add(sum, grad);
        products = hn::MulAdd(grad, hn::Sub(load(t.x + i, some), mean), products);
      }
      store(sum, to.chunk_first + c);
      store(products, to.chunk_second + c);
    });
  };
  sum_rows<kGroupRows>(rows, rows.first_row(part), rows.first_row(part + 1), to, add);
}

// Sums a sample per channel, over the parts in order.
template <class T>
void sum_group_rows(const GroupGradTensors<T>& t, const ChannelRows& rows, const RowArrays& sums,
                    const RowArrays& a) {
  parallel_for(rows.parts, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part) {
      sum_group_part(t, a[kGroupMean], rows, sums, static_cast<int>(part));
    }
  });
  a.clear(kGradSum);
  a.clear(kGradProducts);
  for (int part = 0; part < rows.parts; ++part) {
    for (std::int64_t c = 0; c < rows.channels; ++c) {
      a[kGradSum][c] += sums[part * kSumCount + kPartSum][c];
      a[kGradProducts][c] += sums[part * kSumCount + kPartProducts][c];
    }
  }
}

// Sets slope and constant of a group's gradient from the group's sums.
void set_group_grad(const GroupSizes& sizes, std::int64_t group, double rstd, const RowArrays& a) {
  const std::int64_t first = group * sizes.group_channels();
  const std::int64_t last = first + sizes.group_channels();
  double sum = 0;
  double products = 0;
  for (std::int64_t c = first; c < last; ++c) {
    sum += static_cast<double>(a[kGroupWeight][c]) * a[kGradSum][c];
    products += static_cast<double>(a[kGroupWeight][c]) * a[kGradProducts][c];
  }
  const double share = -rstd / static_cast<double>(sizes.group_numbers());
  std::fill(a[kGradSlope] + first, a[kGradSlope] + last,
            static_cast<float>(share * products * rstd * rstd));
  std::fill(a[kGradConstant] + first, a[kGradConstant] + last, static_cast<float>(share * sum));
  for (std::int64_t c = first; c < last; ++c) {
    a[kGradScale][c] = static_cast<float>(rstd) * a[kGroupWeight][c];
  }
}

template <class T>
void write_group_grad(const GroupGradTensors<T>& t, const Samples& samples, const RowArrays& a) {
  for (const auto array : {kGradScale, kGradSlope, kGradConstant}) spread(samples.rows, a[array]);
  const float* means = a[kGroupMean];
  const float* scales = a[kGradScale];
  const float* slopes = a[kGradSlope];
  const float* constants = a[kGradConstant];
  samples.for_vectors([&](std::int64_t i, std::int64_t c, auto part) HWY_ATTR {
    const auto centered = hn::Sub(load(t.x + i, part), load(means + c));
    const auto rest = hn::MulAdd(centered, load(slopes + c), load(constants + c));
    store(hn::MulAdd(load(t.grad + i, part), load(scales + c), rest), t.grad_x + i, part);
  });
}

// The gradients of weight and bias, summed over samples: in f64, for there may be millions.
struct ParameterSums {
  std::vector<double> weight, bias;

  explicit ParameterSums(std::int64_t channels)
      : weight(static_cast<std::size_t>(channels)), bias(weight) {}
  void add(std::int64_t c, double to_weight, double to_bias) {
    weight[static_cast<std::size_t>(c)] += to_weight;
    bias[static_cast<std::size_t>(c)] += to_bias;
  }
};

// A call; `t` points to the first sample.
template <class T>
struct GroupGradCall {
  GroupGradTensors<T> t;
  Tensor weight;
  const float* means;
  const float* rstds;
};

template <class T>
void grad_of_samples(const GroupGradCall<T>& call, const Samples& samples, std::int64_t begin,
                     std::int64_t end, ParameterSums& totals) {
  const ChannelRows& rows = samples.rows;
  const GroupSizes& sizes = samples.sizes;
  const RowArrays sums(rows, rows.parts * kSumCount);
  const RowArrays a(rows, kGroupGradArrays);
  load_channels(rows, call.weight, 1, a[kGroupWeight]);
  for (std::int64_t sample = begin; sample < end; ++sample) {
    const std::int64_t at = sample * samples.size();
    const GroupGradTensors<T> t{call.t.grad + at, call.t.x + at, call.t.grad_x + at};
    const float* rstds = call.rstds + sample * sizes.groups;
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      a[kGroupMean][c] = call.means[sample * sizes.groups + c / sizes.group_channels()];
    }
    spread(rows, a[kGroupMean]);
    sum_group_rows(t, rows, sums, a);
    for (std::int64_t group = 0; group < sizes.groups; ++group) {
      set_group_grad(sizes, group, rstds[group], a);
    }
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      totals.add(c, static_cast<double>(a[kGradProducts][c]) * rstds[c / sizes.group_channels()],
                 a[kGradSum][c]);
    }
    write_group_grad(t, samples, a);
  }
}

// Adds the workers' sums in order.
void store_totals(const std::vector<ParameterSums>& totals, const KernelArgs& args) {
  auto* grad_weight = args.output(1).mutable_data<float>();
  auto* grad_bias = args.output(2).mutable_data<float>();
  for (std::size_t c = 0; c < totals[0].weight.size(); ++c) {
    ParameterSums all(1);
    for (const ParameterSums& some : totals) all.add(0, some.weight[c], some.bias[c]);
    grad_weight[c] = static_cast<float>(all.weight[0]);
    grad_bias[c] = static_cast<float>(all.bias[0]);
  }
}

void group_norm_grad(const KernelArgs& args) {
  using In = GroupNormGradInput;
  const Tensor& out = args.output();
  const Tensor grad = kernels::dense(args.input(In::kGrad), out.format());
  const Tensor x = kernels::dense(args.input(In::kX), out.format());
  const Tensor means = kernels::dense(args.input(In::kMean), Format::kContiguous);
  const Tensor rstds = kernels::dense(args.input(In::kRstd), Format::kContiguous);
  const Samples samples(x.shape(), args.attrs<GroupNormAttrs>().groups);
  std::vector<ParameterSums> totals(static_cast<std::size_t>(samples.workers),
                                    ParameterSums(samples.sizes.channels));
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const GroupGradCall<T> call{{grad.data<T>(), x.data<T>(), out.mutable_data<T>()},
                                args.input(In::kWeight),
                                means.data<float>(),
                                rstds.data<float>()};
    samples.for_workers([&](std::int64_t worker, std::int64_t first, std::int64_t last) {
      grad_of_samples(call, samples, first, last, totals[static_cast<std::size_t>(worker)]);
    });
  });
  store_totals(totals, args);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(group_norm);
HWY_EXPORT(group_norm_grad);

}  // namespace

extern const KernelList group_norm{
    {{{"cpu_channels", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(group_norm)(args);
       }}}}};
extern const KernelList group_norm_grad{
    {{{"cpu_channels", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(group_norm_grad)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
