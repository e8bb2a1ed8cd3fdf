// Sums, means and maxima over any axes: how a tensor is walked. reduce_blocks.cpp has the inner
// loops.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mezzo/core/half.h"
#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/integers.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/kernels/cpu/loops/reduce_blocks.h"
#include "mezzo/kernels/cpu/loops/reduce_plan.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

// The output; results are rounded to its dtype.
class Results {
 public:
  Results(const Tensor& out, double scale)
      : data_(out.mutable_raw_data()), dtype_(out.dtype()), scale_(scale) {}

  void write(std::int64_t offset, double total) const {
    const auto value = static_cast<float>(total * scale_);
    visit_vector_dtype(dtype_, [&]<class T>() { static_cast<T*>(data_)[offset] = T(value); });
  }

 private:
  void* data_;
  DType dtype_;
  double scale_;
};

class Walk {
 public:
  Walk(Reduction reduction, const ReducePlan& plan, const Tensor& x, const Results& results)
      : reduction_(reduction),
        plan_(plan),
        blocks_(reduce_blocks(reduction, x.dtype())),
        x_(static_cast<const std::byte*>(x.raw_data())),
        element_(static_cast<std::int64_t>(size_of(x.dtype()))),
        results_(results) {}

  void run() const { plan_.inner_out == 0 ? reduce_rows() : reduce_inner_kept(); }

 private:
  double start() const { return start_of(reduction_); }
  double combined(double total, double v) const { return combine(reduction_, total, v); }
  const std::byte* at(std::int64_t offset) const { return x_ + offset * element_; }

  // The offset of the first element that is reduced into result, or group of results, `result`.
  std::int64_t offset_of_kept(std::int64_t result) const {
    return offset_of(result, plan_.kept, plan_.kept_in);
  }
  // Row r of the rows that are reduced into `result`.
  const std::byte* row_of(std::int64_t result, std::int64_t r) const {
    return at(offset_of_kept(result) + offset_of(r, plan_.reduced, plan_.reduced_in));
  }

  double reduce_row(const std::byte* row) const {
    double total = start();
    for (std::int64_t i = 0; i < plan_.inner; i += blocks_.most) {
      const std::int64_t count = std::min(blocks_.most, plan_.inner - i);
      total = combined(total, blocks_.row(row + i * element_, count));
    }
    return total;
  }

  // Computes one result on all threads: they divide its blocks, which are combined in order.
  double reduce_rows_together(std::int64_t result) const {
    const std::int64_t in_row = ceil_div(plan_.inner, blocks_.most);
    const std::int64_t all = plan_.reduced.numel() * in_row;
    std::vector<double> partial(static_cast<std::size_t>(all));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain * in_row / plan_.inner);
    parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t first = b % in_row * blocks_.most;
        partial[static_cast<std::size_t>(b)] =
            blocks_.row(row_of(result, b / in_row) + first * element_,
                        std::min(blocks_.most, plan_.inner - first));
      }
    });
    double total = start();
    for (const double value : partial) total = combined(total, value);
    return total;
  }

  // The innermost dimension is reduced: every result reduces rows.
  void reduce_rows() const {
    const std::int64_t results = plan_.kept.numel();
    const std::int64_t rows = plan_.reduced.numel();
    const auto place = [&](std::int64_t i) { return offset_of(i, plan_.kept, plan_.kept_out); };
    if (results < num_threads() && rows * plan_.inner > kElementGrain) {
      for (std::int64_t i = 0; i < results; ++i) results_.write(place(i), reduce_rows_together(i));
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (rows * plan_.inner));
    parallel_for(results, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double total = start();
        for (std::int64_t r = 0; r < rows; ++r) total = combined(total, reduce_row(row_of(i, r)));
        results_.write(place(i), total);
      }
    });
  }

  // Combines rows into totals[0..inner). Several short contiguous rows are treated as one, to fill
  // the vectors.
  void reduce_columns(const std::byte* x, std::int64_t rows, std::int64_t stride,
                      double* totals) const {
    constexpr std::int64_t kWanted = 64;
    const std::int64_t cols = plan_.inner;
    const std::int64_t joined = ceil_div(kWanted, cols);
    if (stride != cols || joined < 2 || rows < 2 * joined) {
      blocks_.columns(x, rows, stride, cols, totals);
      return;
    }
    double wide[2 * kWanted];
    std::fill_n(wide, joined * cols, start());
    const std::int64_t wide_rows = rows / joined;
    blocks_.columns(x, wide_rows, joined * cols, joined * cols, wide);
    for (std::int64_t i = 0; i < joined * cols; ++i) {
      totals[i % cols] = combined(totals[i % cols], wide[i]);
    }
    const std::int64_t done = wide_rows * joined;
    blocks_.columns(x + done * cols * element_, rows - done, cols, cols, totals);
  }

  // Combines rows [begin, end) of the reduced dimensions of a group into totals[0..inner).
  void reduce_matrix(std::int64_t group, std::int64_t begin, std::int64_t end,
                     double* totals) const {
    // The innermost reduced dimension gives the rows of one matrix; the others are looped over.
    const bool any = !plan_.reduced.empty();
    const std::int64_t length = any ? plan_.reduced.back() : 1;
    const std::int64_t stride = any ? plan_.reduced_in.back() : plan_.inner;
    for (std::int64_t r = begin; r < end;) {
      const std::int64_t count = std::min(length - r % length, end - r);
      reduce_columns(row_of(group, r), count, stride, totals);
      r += count;
    }
  }

  void write_group(std::int64_t group, const double* totals) const {
    const std::int64_t out = offset_of(group, plan_.kept, plan_.kept_out);
    for (std::int64_t j = 0; j < plan_.inner; ++j) {
      results_.write(out + j * plan_.inner_out, totals[j]);
    }
  }

  // The innermost dimension is kept: every result reduces a column.
  void reduce_inner_kept() const {
    const std::int64_t groups = plan_.kept.numel();
    const std::int64_t rows = plan_.reduced.numel();
    const std::int64_t cols = plan_.inner;
    if (groups < num_threads() && rows * cols >= 2 * kLeastInPart) return reduce_long_groups();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (rows * cols));
    parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> totals(static_cast<std::size_t>(cols));
      for (std::int64_t g = begin; g < end; ++g) {
        std::fill(totals.begin(), totals.end(), start());
        reduce_matrix(g, 0, rows, totals.data());
        write_group(g, totals.data());
      }
    });
  }

  // The fewest elements of a thread's rows. With fewer, waiting for the other threads and adding
  // their totals take longer than they save. (256 rows of 512 take 5.9 us on two threads of a Xeon,
  // 4.6 on one.)
  static constexpr std::int64_t kLeastInPart = 8 * kElementGrain;

  // For few groups of many rows. Each thread reduces a part of the rows, and the parts are combined
  // in order, so that the result depends only on the number of threads.
  void reduce_long_groups() const {
    const std::int64_t rows = plan_.reduced.numel();
    const std::int64_t cols = plan_.inner;
    const std::int64_t parts =
        std::min({std::int64_t{num_threads()}, rows, rows * cols / kLeastInPart});
    std::vector<double> totals(static_cast<std::size_t>(parts * cols));
    for (std::int64_t g = 0; g < plan_.kept.numel(); ++g) {
      std::fill(totals.begin(), totals.end(), start());
      parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t part = begin; part < end; ++part) {
          reduce_matrix(g, rows * part / parts, rows * (part + 1) / parts,
                        totals.data() + part * cols);
        }
      });
      for (std::int64_t i = cols; i < parts * cols; ++i) {
        double& total = totals[static_cast<std::size_t>(i % cols)];
        total = combined(total, totals[static_cast<std::size_t>(i)]);
      }
      write_group(g, totals.data());
    }
  }

  Reduction reduction_;
  const ReducePlan& plan_;
  ReduceBlocks blocks_;
  const std::byte* x_;
  std::int64_t element_;  // bytes
  Results results_;
};

void reduce(const KernelArgs& args, Reduction reduction, bool is_mean) {
  const Tensor& out = args.output();
  Tensor x = args.input(0);
  if (x.numel() == 0) {
    fill(out, start_of(reduction));
    return;
  }
  const Strides to = output_strides(x.shape(), args.attrs<ReduceAttrs>());
  auto loop = make_loop<2>(x.shape(), {x.strides(), to});
  if (loop.inner_stride(0) != 1) {
    x = dense(x, Format::kContiguous);
    loop = make_loop<2>(x.shape(), {x.strides(), to});
  }
  const ReducePlan plan(loop);
  const double scale =
      is_mean ? static_cast<double>(out.numel()) / static_cast<double>(x.numel()) : 1.0;
  Walk(reduction, plan, x, Results(out, scale)).run();
}

void run_sum(const KernelArgs& args) { reduce(args, Reduction::kSum, false); }
void run_mean(const KernelArgs& args) { reduce(args, Reduction::kSum, true); }
void run_max(const KernelArgs& args) { reduce(args, Reduction::kMax, false); }

// totals = combine(total, element) for integers, beginning with `start`.
template <class T, class Combine>
void reduce_integers(const KernelArgs& args, T start, const Combine& combine) {
  const Tensor& x = args.input(0);
  const Tensor& out = args.output();
  const Strides to = output_strides(x.shape(), args.attrs<ReduceAttrs>());
  const auto loop = make_loop<2>(x.shape(), {x.strides(), to});
  const T* from = x.data<T>();
  T* totals = out.mutable_data<T>();
  std::fill_n(totals, out.numel(), start);
  for_each_run(loop, 0, loop.numel(), [&](const auto& at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      T& total = totals[at[1] + i * loop.inner_stride(1)];
      total = combine(total, from[at[0] + i * loop.inner_stride(0)]);
    }
  });
}

// Sums as unsigned integers, which wrap around where signed ones would be undefined.
void sum_integers(const KernelArgs& args) {
  visit_integer_dtype(args.output().dtype(), [&]<class T>() {
    reduce_integers<T>(args, 0, [](T total, T x) {
      return static_cast<T>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(x));
    });
  });
}

void max_of_integers(const KernelArgs& args) {
  visit_integer_dtype(args.output().dtype(), [&]<class T>() {
    reduce_integers<T>(args, std::numeric_limits<T>::lowest(),
                       [](T total, T x) { return std::max(total, x); });
  });
}

// The share of a maximum's gradient that each element of x gets: equal shares for ties.
template <class T>
void share_max_grad(const KernelArgs& args) {
  const Tensor& x = args.input(1);
  const Tensor& out = args.output();
  const Tensor grad = dense(args.input(0), Format::kContiguous);
  const Tensor y = dense(args.input(2), Format::kContiguous);
  const auto loop =
      make_loop<3>(x.shape(), {out.strides(), x.strides(), broadcast_strides(y, x.shape())});
  const T* from = x.data<T>();
  const T* largest = y.data<T>();
  const T* gradient = grad.data<T>();
  T* to = out.mutable_data<T>();
  const auto equal = [](T a, T b) {
    const auto u = static_cast<float>(a);
    const auto v = static_cast<float>(b);
    return u == v || (u != u && v != v);
  };
  // Integers: f32 is exact to 2^24 only.
  std::vector<std::int64_t> ties(static_cast<std::size_t>(y.numel()), 0);
  for_each_run(loop, 0, loop.numel(), [&](const auto& at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t k = at[2] + i * loop.inner_stride(2);
      if (equal(from[at[1] + i * loop.inner_stride(1)], largest[k])) ++ties[k];
    }
  });
  parallel_for(loop.numel(), 1 << 13, [&](std::int64_t begin, std::int64_t end) {
    for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t k = at[2] + i * loop.inner_stride(2);
        const bool wins = equal(from[at[1] + i * loop.inner_stride(1)], largest[k]);
        to[at[0] + i * loop.inner_stride(0)] =
            T(wins ? static_cast<float>(gradient[k]) / static_cast<float>(ties[k]) : 0.0F);
      }
    });
  });
}

void run_max_grad(const KernelArgs& args) {
  visit_vector_dtype(args.output().dtype(), [&]<class T>() { share_max_grad<T>(args); });
}

}  // namespace

extern const KernelList sum{
    {{{"cpu_simd", vector_dtypes_only, run_sum}, {"cpu_integer", integers_only, sum_integers}}}};
extern const KernelList mean{{{{"cpu_simd", vector_dtypes_only, run_mean}}}};
extern const KernelList max{
    {{{"cpu_simd", vector_dtypes_only, run_max}, {"cpu_integer", integers_only, max_of_integers}}}};
extern const KernelList max_grad{{{{"cpu_plain", vector_dtypes_only, run_max_grad}}}};

}  // namespace mezzo::kernels::cpu
