// One-hot vectors, positions of maxima, and rows of a table.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

void one_hot_kernel(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor labels = dense(args.input(0), Format::kContiguous);
  const std::int64_t classes = args.attrs<OneHotAttrs>().classes;
  const auto* label = labels.data<std::int64_t>();
  std::memset(out.mutable_raw_data(), 0, out.bytes());
  visit_vector_dtype(out.dtype(), [&]<class T>() {
    T* to = out.mutable_data<T>();
    for (std::int64_t i = 0; i < labels.numel(); ++i) {
      to[i * classes + checked_index(label[i], i, classes, "one_hot")] = T(1.0F);
    }
  });
}

Support supports_one_hot(const KernelArgs& args) {
  return is_vector_dtype(args.output().dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16 results");
}

template <class Value>
bool is_nan(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

// The first position of the largest element, compared as type Value; NaN counts as larger than all.
template <class Value, class T>
std::int64_t position_of_largest(const T* row, std::int64_t n, std::int64_t stride) {
  std::int64_t best = 0;
  auto largest = static_cast<Value>(row[0]);
  for (std::int64_t j = 1; j < n && !is_nan(largest); ++j) {
    const auto candidate = static_cast<Value>(row[j * stride]);
    if (candidate > largest || is_nan(candidate)) {
      best = j;
      largest = candidate;
    }
  }
  return best;
}

template <class Value, class T>
void find_largest(const KernelArgs& args) {
  const Tensor x = dense(args.input(0), Format::kContiguous);
  const std::size_t axis = normalize_axis(args.attrs<AxisAttrs>().axis, x.rank(), "argmax");
  const std::int64_t n = x.shape()[axis];
  const std::int64_t inner = strides_for(x.shape(), Format::kContiguous)[axis];
  auto* out = args.output().mutable_data<std::int64_t>();
  const T* from = x.data<T>();
  parallel_for(x.numel() / n, std::max<std::int64_t>(1, kGrain / n),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* row = from + i / inner * n * inner + i % inner;
                   out[i] = position_of_largest<Value>(row, n, inner);
                 }
               });
}

void argmax_kernel(const KernelArgs& args) {
  visit_vector_dtype(args.input(0).dtype(), [&]<class T>() { find_largest<float, T>(args); });
}

void argmax_of_integers(const KernelArgs& args) {
  visit_integer_dtype(args.input(0).dtype(), [&]<class T>() { find_largest<T, T>(args); });
}

void embedding_kernel(const KernelArgs& args) {
  const Tensor weight = dense(args.input(0), Format::kContiguous);
  const Tensor indices = dense(args.input(1), Format::kContiguous);
  const std::int64_t rows = weight.shape()[0];
  const auto row_bytes = static_cast<std::size_t>(weight.shape()[1]) * size_of(weight.dtype());
  const auto* index = indices.data<std::int64_t>();
  const auto* from = static_cast<const char*>(weight.raw_data());
  auto* to = static_cast<char*>(args.output().mutable_raw_data());
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / weight.shape()[1]);
  parallel_for(indices.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = checked_index(index[i], i, rows, "embedding");
      std::memcpy(to + i * row_bytes, from + row * row_bytes, row_bytes);
    }
  });
}

// Threads divide the columns, so that every element is summed in the order of the indices, whatever
// the number of threads. Sums are f32: a frequent word gathers thousands of terms.
template <class T>
void add_rows(const Tensor& grad, const Tensor& indices, const Tensor& sums) {
  const std::int64_t rows = sums.shape()[0];
  const std::int64_t d = sums.shape()[1];
  const T* from = grad.data<T>();
  const auto* index = indices.data<std::int64_t>();
  auto* to = sums.mutable_data<float>();
  constexpr std::int64_t kColumns = 16;
  const std::int64_t blocks = ceil_div(d, kColumns);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrain / (kColumns * std::max<std::int64_t>(1, indices.numel())));
  parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kColumns;
    const std::int64_t last = std::min(end * kColumns, d);
    for (std::int64_t i = 0; i < indices.numel(); ++i) {
      float* sum = to + checked_index(index[i], i, rows, "embedding_grad") * d;
      const T* row = from + i * d;
      for (std::int64_t j = first; j < last; ++j) sum[j] += static_cast<float>(row[j]);
    }
  });
}

void embedding_grad_kernel(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor grad = dense(args.input(0), Format::kContiguous);
  const Tensor indices = dense(args.input(1), Format::kContiguous);
  const Tensor sums = out.dtype() == DType::kF32 ? out : scratch(out.shape(), DType::kF32);
  std::memset(sums.mutable_raw_data(), 0, sums.bytes());
  visit_vector_dtype(grad.dtype(), [&]<class T>() { add_rows<T>(grad, indices, sums); });
  if (out.dtype() != DType::kF32) convert_into(sums, out);
}

Support supports_embedding(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16 tables");
}

}  // namespace

extern const KernelList one_hot{{{{"cpu_plain", supports_one_hot, one_hot_kernel}}}};
extern const KernelList argmax{{{{"cpu_plain", vector_dtypes_only, argmax_kernel},
                                 {"cpu_integer", integers_only, argmax_of_integers}}}};
extern const KernelList embedding{{{{"cpu_copy", supports_embedding, embedding_kernel}}}};
extern const KernelList embedding_grad{
    {{{"cpu_plain", supports_embedding, embedding_grad_kernel}}}};

}  // namespace mezzo::kernels::cpu
