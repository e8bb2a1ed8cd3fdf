// Sums, means and maxima over any axes.
//
// Sums run over blocks of 64 numbers per f32 vector lane, and the blocks are added in
// f64: a single f32 accumulator would lose the small terms of a long sum, with an error that grows
// linearly with its length; here the error is that of one block, whatever the length.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/reduce.cpp"
#include <limits>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/loop.h"
#include "mezzo/kernels/cpu/reduce_plan.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/reduce_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

struct Sum {
  static constexpr double kStart = 0;
  static HWY_INLINE F32Vec combine(F32Vec total, F32Vec v) { return hn::Add(total, v); }
  static double combine(double total, double v) { return total + v; }
  static double across(F32Vec v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }
};

// A NaN wins and stays, as in the comparison "is there anything larger" a NaN leaves unanswered.
struct Max {
  static constexpr double kStart = -std::numeric_limits<double>::infinity();
  static HWY_INLINE F32Vec combine(F32Vec total, F32Vec v) {
    return hn::IfThenElse(hn::Or(hn::Gt(v, total), hn::IsNaN(v)), v, total);
  }
  static double combine(double total, double v) { return v > total || v != v ? v : total; }
  static double across(F32Vec v) {
    alignas(64) float values[kMaxLanes];
    hn::Store(v, F32(), values);
    double total = kStart;
    for (std::int64_t k = 0; k < lanes(); ++k) total = combine(total, double{values[k]});
    return total;
  }
};

template <class R>
HWY_INLINE F32Vec start() {
  return hn::Set(F32(), static_cast<float>(R::kStart));
}

constexpr std::int64_t kRowBlock = 256 * kMaxLanes;  // numbers per f32 partial result of a row
constexpr std::int64_t kColumnBlock = 64;            // rows per f32 partial result of a column
constexpr std::int64_t kColumnChunk = 4096;          // columns that are handled together

// One block of at most kRowBlock numbers: each of four vectors combines up to 64.
template <class R, class T>
double reduce_block(const T* p, std::int64_t n) {
  const std::int64_t step = lanes();
  F32Vec a = start<R>();
  F32Vec b = a;
  F32Vec c = a;
  F32Vec d = a;
  std::int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    a = R::combine(a, load(p + i));
    b = R::combine(b, load(p + i + step));
    c = R::combine(c, load(p + i + 2 * step));
    d = R::combine(d, load(p + i + 3 * step));
  }
  for (; i + step <= n; i += step) a = R::combine(a, load(p + i));
  if (i < n) {
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(n - i));
    b = R::combine(b, hn::IfThenElse(valid, load_part(p + i, n - i), start<R>()));
  }
  return R::across(R::combine(R::combine(a, b), R::combine(c, d)));
}

template <class R, class T>
double reduce_row(const T* p, std::int64_t n) {
  double total = R::kStart;
  for (std::int64_t i = 0; i < n; i += kRowBlock) {
    total = R::combine(total, reduce_block<R>(p + i, std::min(kRowBlock, n - i)));
  }
  return total;
}

// Combines up to 8 rows into the f32 partial results of their columns.
template <class R, class T>
void add_rows(const T* p, std::int64_t rows, std::int64_t row_stride, std::int64_t cols,
              float* partial) {
  const std::int64_t step = lanes();
  std::int64_t j = 0;
  for (; j + step <= cols; j += step) {
    F32Vec total = hn::LoadU(F32(), partial + j);
    for (std::int64_t r = 0; r < rows; ++r) total = R::combine(total, load(p + r * row_stride + j));
    hn::StoreU(total, F32(), partial + j);
  }
  if (j < cols) {
    F32Vec total = load_part(partial + j, cols - j);
    for (std::int64_t r = 0; r < rows; ++r) {
      total = R::combine(total, load_part(p + r * row_stride + j, cols - j));
    }
    store_part(total, partial + j, cols - j);
  }
}

// Combines rows into totals[0..cols).
template <class R, class T>
void reduce_columns(const T* p, std::int64_t rows, std::int64_t row_stride, std::int64_t cols,
                    double* totals) {
  float partial[kColumnChunk];
  for (std::int64_t first = 0; first < cols; first += kColumnChunk) {
    const std::int64_t count = std::min(kColumnChunk, cols - first);
    for (std::int64_t block = 0; block < rows; block += kColumnBlock) {
      const std::int64_t end = std::min(block + kColumnBlock, rows);
      std::fill_n(partial, count, static_cast<float>(R::kStart));
      for (std::int64_t r = block; r < end; r += 8) {
        add_rows<R>(p + r * row_stride + first, std::min<std::int64_t>(8, end - r), row_stride,
                    count, partial);
      }
      for (std::int64_t j = 0; j < count; ++j) {
        totals[first + j] = R::combine(totals[first + j], double{partial[j]});
      }
    }
  }
}

// The same; several short rows without gaps between them are treated as one, to fill the vectors.
template <class R, class T>
void reduce_short_columns(const T* p, std::int64_t rows, std::int64_t row_stride, std::int64_t cols,
                          double* totals) {
  constexpr std::int64_t kWanted = 4 * kMaxLanes;
  const std::int64_t joined = (kWanted + cols - 1) / cols;
  if (row_stride != cols || joined < 2 || rows < 2 * joined) {
    reduce_columns<R>(p, rows, row_stride, cols, totals);
    return;
  }
  double wide[2 * kWanted];
  std::fill_n(wide, joined * cols, R::kStart);
  const std::int64_t wide_rows = rows / joined;
  reduce_columns<R>(p, wide_rows, joined * cols, joined * cols, wide);
  for (std::int64_t i = 0; i < joined * cols; ++i) {
    totals[i % cols] = R::combine(totals[i % cols], wide[i]);
  }
  const std::int64_t done = wide_rows * joined;
  reduce_columns<R>(p + done * cols, rows - done, cols, cols, totals);
}

using Plan = kernels::ReducePlan;

// Row r of those that result `result` is reduced from.
template <class T>
const T* row_of(const Plan& plan, const T* x, std::int64_t result, std::int64_t r) {
  return x + kernels::offset_of(result, plan.kept, plan.kept_in) +
         kernels::offset_of(r, plan.reduced, plan.reduced_in);
}

// One result, its blocks shared out to threads and combined in order.
template <class R, class T>
double reduce_rows_together(const Plan& plan, const T* x, std::int64_t result) {
  const std::int64_t blocks = (plan.inner + kRowBlock - 1) / kRowBlock;
  const std::int64_t all = plan.reduced.numel() * blocks;
  std::vector<double> partial(static_cast<std::size_t>(all));
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain * blocks / plan.inner);
  parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b % blocks * kRowBlock;
      const T* row = row_of(plan, x, result, b / blocks);
      partial[static_cast<std::size_t>(b)] =
          reduce_block<R>(row + first, std::min(kRowBlock, plan.inner - first));
    }
  });
  double total = R::kStart;
  for (const double value : partial) total = R::combine(total, value);
  return total;
}

// The innermost dimension is reduced: every result is a reduction of rows.
template <class R, class T, class Write>
void reduce_rows(const Plan& plan, const T* x, const Write& write) {
  const std::int64_t results = plan.kept.numel();
  const std::int64_t rows = plan.reduced.numel();
  const auto place = [&](std::int64_t i) {
    return kernels::offset_of(i, plan.kept, plan.kept_out);
  };
  if (results < num_threads() && rows * plan.inner > kElementGrain) {
    for (std::int64_t i = 0; i < results; ++i) {
      write(place(i), reduce_rows_together<R>(plan, x, i));
    }
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (rows * plan.inner));
  parallel_for(results, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double total = R::kStart;
      for (std::int64_t r = 0; r < rows; ++r) {
        total = R::combine(total, reduce_row<R>(row_of(plan, x, i, r), plan.inner));
      }
      write(place(i), total);
    }
  });
}

// Rows [begin, end) of the reduced dimensions, combined into totals[0..inner).
template <class R, class T>
void reduce_matrix(const Plan& plan, const T* x, std::int64_t begin, std::int64_t end,
                   double* totals) {
  // The innermost reduced dimension gives the rows of one matrix; the others are walked.
  const bool any = !plan.reduced.empty();
  const std::int64_t length = any ? plan.reduced.back() : 1;
  const std::int64_t stride = any ? plan.reduced_in.back() : plan.inner;
  for (std::int64_t r = begin; r < end;) {
    const std::int64_t count = std::min(length - r % length, end - r);
    const std::int64_t offset = kernels::offset_of(r, plan.reduced, plan.reduced_in);
    reduce_short_columns<R>(x + offset, count, stride, plan.inner, totals);
    r += count;
  }
}

// The innermost dimension is kept: every result is a reduction of columns.
template <class R, class T, class Write>
void reduce_inner_kept(const Plan& plan, const T* x, const Write& write) {
  const std::int64_t groups = plan.kept.numel();
  const std::int64_t rows = plan.reduced.numel();
  const std::int64_t cols = plan.inner;
  const auto write_group = [&](std::int64_t group, const double* totals) {
    const std::int64_t out = kernels::offset_of(group, plan.kept, plan.kept_out);
    for (std::int64_t j = 0; j < cols; ++j) write(out + j * plan.inner_out, totals[j]);
  };
  if (groups >= num_threads() || rows * cols <= kElementGrain) {
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (rows * cols));
    parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> totals(static_cast<std::size_t>(cols));
      for (std::int64_t g = begin; g < end; ++g) {
        std::fill(totals.begin(), totals.end(), R::kStart);
        reduce_matrix<R>(plan, x + kernels::offset_of(g, plan.kept, plan.kept_in), 0, rows,
                         totals.data());
        write_group(g, totals.data());
      }
    });
    return;
  }
  // Few groups of many rows: each thread reduces a part of the rows, and the parts are combined in
  // order, so that the result depends on nothing but the number of threads.
  const std::int64_t parts = std::min<std::int64_t>(num_threads(), rows);
  std::vector<double> totals(static_cast<std::size_t>(parts * cols));
  for (std::int64_t g = 0; g < groups; ++g) {
    std::fill(totals.begin(), totals.end(), R::kStart);
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        reduce_matrix<R>(plan, x + kernels::offset_of(g, plan.kept, plan.kept_in),
                         rows * part / parts, rows * (part + 1) / parts,
                         totals.data() + part * cols);
      }
    });
    for (std::int64_t i = cols; i < parts * cols; ++i) {
      double& total = totals[static_cast<std::size_t>(i % cols)];
      total = R::combine(total, totals[static_cast<std::size_t>(i)]);
    }
    write_group(g, totals.data());
  }
}

template <class R, class T, class Out>
void reduce_typed(const Plan& plan, const T* x, Out* out, double scale) {
  const auto write = [out, scale](std::int64_t offset, double total) {
    out[offset] = static_cast<Out>(static_cast<float>(total * scale));
  };
  if (plan.inner_out == 0) {
    reduce_rows<R>(plan, x, write);
  } else {
    reduce_inner_kept<R>(plan, x, write);
  }
}

template <class R>
void reduce(const KernelArgs& args, bool is_mean) {
  const auto& attrs = args.attrs<ReduceAttrs>();
  const Tensor& out = args.output();
  Tensor x = args.input(0);
  if (x.numel() == 0) {
    fill(out, R::kStart);
    return;
  }
  const Strides to = kernels::output_strides(x.shape(), attrs);
  auto loop = kernels::make_loop<2>(x.shape(), {x.strides(), to});
  if (loop.inner_stride(0) != 1) {
    x = kernels::dense(x, Format::kContiguous);
    loop = kernels::make_loop<2>(x.shape(), {x.strides(), to});
  }
  const Plan plan(loop);
  const double scale =
      is_mean ? static_cast<double>(out.numel()) / static_cast<double>(x.numel()) : 1.0;
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    const auto run = [&](auto* results) { reduce_typed<R>(plan, x.data<T>(), results, scale); };
    if (out.dtype() == DType::kF32) {
      run(out.mutable_data<float>());
    } else if constexpr (!std::is_same_v<T, float>) {
      run(out.mutable_data<T>());
    }
  });
}

}  // namespace

void reduce_sum(const KernelArgs& args) { reduce<Sum>(args, false); }
void reduce_mean(const KernelArgs& args) { reduce<Sum>(args, true); }
void reduce_max(const KernelArgs& args) { reduce<Max>(args, false); }

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(reduce_sum);
HWY_EXPORT(reduce_mean);
HWY_EXPORT(reduce_max);

// How much of the gradient of a maximum each element of x gets: equal shares for ties.
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
  std::vector<float> ties(static_cast<std::size_t>(y.numel()), 0.0F);
  for_each_run(loop, 0, loop.numel(), [&](const auto& at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t k = at[2] + i * loop.inner_stride(2);
      if (equal(from[at[1] + i * loop.inner_stride(1)], largest[k])) ties[k] += 1;
    }
  });
  parallel_for(loop.numel(), 1 << 13, [&](std::int64_t begin, std::int64_t end) {
    for_each_run(loop, begin, end, [&](const auto& at, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t k = at[2] + i * loop.inner_stride(2);
        const bool wins = equal(from[at[1] + i * loop.inner_stride(1)], largest[k]);
        to[at[0] + i * loop.inner_stride(0)] =
            T(wins ? static_cast<float>(gradient[k]) / ties[k] : 0.0F);
      }
    });
  });
}

void run_max_grad(const KernelArgs& args) {
  visit_vector_dtype(args.output().dtype(), [&]<class T>() { share_max_grad<T>(args); });
}

}  // namespace

extern const KernelList sum{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                 HWY_DYNAMIC_DISPATCH(reduce_sum)(args);
                               }}}}};
extern const KernelList mean{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                  HWY_DYNAMIC_DISPATCH(reduce_mean)(args);
                                }}}}};
extern const KernelList max{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                 HWY_DYNAMIC_DISPATCH(reduce_max)(args);
                               }}}}};
extern const KernelList max_grad{{{{"cpu_plain", vector_dtypes_only, run_max_grad}}}};

}  // namespace mezzo::kernels::cpu
#endif
