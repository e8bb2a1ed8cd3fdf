// One-hot vectors, positions of maxima, and rows of a table.
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/kernels/cuda/rows.cuh"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
__global__ void one_hot_kernel(const std::int64_t* labels, std::int64_t count, std::int64_t classes,
                               T* out, Report* report) {
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    if (check_range(report, Fault::kLabel, i, labels[i], classes)) {
      out[i * classes + labels[i]] = narrow<T>(1.0F);
    }
  }
}

void run_one_hot(const KernelArgs& args) {
  const Tensor& output = args.output();
  const Launch launch(output);
  const Tensor labels = dense(args.input(0), Format::kContiguous);
  MEZZO_CUDA_CHECK(cudaMemsetAsync(output.address(), 0, output.bytes(), launch.stream()));
  visit_vector_dtype(output.dtype(), [&]<class T>() {
    one_hot_kernel<<<launch.blocks_for(labels.numel()), kThreads, 0, launch.stream()>>>(
        in<std::int64_t>(labels), labels.numel(), args.attrs<OneHotAttrs>().classes, out<T>(output),
        report_of(output.device()));
  });
  check_launch("one_hot_kernel");
}

// Finds the first NaN, or else the first of the largest elements.
template <class T>
struct Argmax {
  const T* x;
  std::int64_t* out;

  template <class Of>
  __device__ void row(std::int64_t row, const Rows& rows) const {
    const T* from = x + rows.start(row);
    float largest = -INFINITY;
    int has_nan = 0;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const float value = widen(from[j * rows.inner]);
      has_nan += isnan(value) ? 1 : 0;
      largest = fmaxf(largest, value);
    }
    largest = Of::all(largest, LargestOf());
    has_nan = Of::all(has_nan, SumOf());
    int first = 0x7fffffff;
    for (std::int64_t j = Of::lane(); j < rows.size; j += Of::kSize) {
      const float value = widen(from[j * rows.inner]);
      if (has_nan > 0 ? isnan(value) : value == largest) {
        first = static_cast<int>(j);
        break;
      }
    }
    first = Of::all(first, SmallestOf());
    if (Of::lane() == 0) out[row] = first;
  }
};

void run_argmax(const KernelArgs& args) {
  const Launch launch(args.output());
  const Tensor x = dense(args.input(0), Format::kContiguous);
  const std::size_t axis = normalize_axis(args.attrs<AxisAttrs>().axis, x.rank(), "argmax");
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    for_rows(launch, Argmax<T>{in<T>(x), out<std::int64_t>(args.output())},
             rows_along(x.shape(), axis, Format::kContiguous));
  });
}

// A table with rows of `size` elements, and the indices of the rows to read.
struct Table {
  const std::int64_t* indices;
  std::int64_t count;  // number of indices
  std::int64_t rows;
  std::int64_t size;
  Report* report;

  // Row 0 in place of one that does not exist: the host is told, and nothing outside is read.
  __device__ std::int64_t row(std::int64_t i) const {
    return check_range(report, Fault::kIndex, i, indices[i], rows) ? indices[i] : 0;
  }
};

template <class T>
__global__ void embedding_kernel(Table table, const T* weight, T* out) {
  for (std::int64_t i = blockIdx.x; i < table.count; i += gridDim.x) {
    const T* from = weight + table.row(i) * table.size;
    for (std::int64_t j = threadIdx.x; j < table.size; j += blockDim.x) {
      out[i * table.size + j] = from[j];
    }
  }
}

// The thread block of a row's first index sums the gradients of all its indices in order. So the
// sums have the same bits every time, while the order of atomic additions varies. Looking for equal
// indices costs count^2 comparisons in all, 256 at a time from the cache. Sums are f32: a frequent
// word gathers thousands of terms.
template <class T, class Out>
__global__ void embedding_grad_kernel(Table table, const T* grad, Out* out) {
  __shared__ unsigned found[kThreads / 32];
  for (std::int64_t i = blockIdx.x; i < table.count; i += gridDim.x) {
    const std::int64_t wanted = table.indices[i];
    if (threadIdx.x == 0) {
      check_range(table.report, Fault::kIndex, i, wanted, table.rows);
    }
    bool is_later = wanted < 0 || wanted >= table.rows;
    for (std::int64_t j = threadIdx.x; j < i && !is_later; j += kThreads) {
      is_later = table.indices[j] == wanted;
    }
    if (__syncthreads_or(is_later ? 1 : 0) != 0) continue;
    for (std::int64_t column = 0; column < table.size; column += kThreads) {
      const std::int64_t at = column + threadIdx.x;
      float sum = 0;
      for (std::int64_t first = i; first < table.count; first += kThreads) {
        const std::int64_t mine = first + threadIdx.x;
        const bool equal = mine < table.count && table.indices[mine] == wanted;
        const unsigned mask = __ballot_sync(0xffffffffU, equal);
        if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = mask;
        __syncthreads();
        for (int warp = 0; warp < kThreads / 32; ++warp) {
          for (unsigned left = found[warp]; left != 0; left &= left - 1) {
            const std::int64_t k = first + 32 * warp + __ffs(static_cast<int>(left)) - 1;
            if (at < table.size) sum += widen(grad[k * table.size + at]);
          }
        }
        __syncthreads();
      }
      if (at < table.size) out[wanted * table.size + at] = narrow<Out>(sum);
    }
  }
}

Table table_of(const Tensor& indices, std::int64_t rows, std::int64_t size) {
  return {in<std::int64_t>(indices), indices.numel(), rows, size, report_of(indices.device())};
}

void run_embedding(const KernelArgs& args) {
  const Tensor weight = dense(args.input(0), Format::kContiguous);
  const Tensor indices = dense(args.input(1), Format::kContiguous);
  const Launch launch(weight);
  const Table table = table_of(indices, weight.size(0), weight.size(1));
  const int blocks = launch.blocks_for(table.count * kThreads);
  visit_vector_dtype(weight.dtype(), [&]<class T>() {
    embedding_kernel<<<blocks, kThreads, 0, launch.stream()>>>(table, in<T>(weight),
                                                               out<T>(args.output()));
  });
  check_launch("embedding_kernel");
}

void run_embedding_grad(const KernelArgs& args) {
  const Tensor& output = args.output();
  const Tensor grad = dense(args.input(0), Format::kContiguous);
  const Tensor indices = dense(args.input(1), Format::kContiguous);
  const Launch launch(output);
  MEZZO_CUDA_CHECK(cudaMemsetAsync(output.address(), 0, output.bytes(), launch.stream()));
  const Table table = table_of(indices, output.size(0), output.size(1));
  const int blocks = launch.blocks_for(table.count * kThreads);
  visit_vector_dtype(grad.dtype(), [&]<class T>() {
    visit_vector_dtype(output.dtype(), [&]<class Out>() {
      if constexpr (std::is_same_v<T, Out> || std::is_same_v<Out, float>) {
        embedding_grad_kernel<<<blocks, kThreads, 0, launch.stream()>>>(table, in<T>(grad),
                                                                        out<Out>(output));
      }
    });
  });
  check_launch("embedding_grad_kernel");
}

Support float_results_only(const KernelArgs& args) {
  return is_vector_dtype(args.output().dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16 results");
}

}  // namespace

extern const KernelList one_hot{{{{"cuda", float_results_only, run_one_hot}}}};
extern const KernelList argmax{{{{"cuda", float_dtypes_only, run_argmax}}}};
extern const KernelList embedding{{{{"cuda", float_results_only, run_embedding}}}};
extern const KernelList embedding_grad{{{{"cuda", float_results_only, run_embedding_grad}}}};

}  // namespace mezzo::kernels::cuda
