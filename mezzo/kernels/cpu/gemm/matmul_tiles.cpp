#include "mezzo/kernels/cpu/gemm/matmul_tiles.h"

#include <algorithm>
#include <optional>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_problem.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_worker.h"
#include "mezzo/kernels/cpu/gemm/tiles-inl.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels {
namespace {

using matmul_tiles::describe;
using matmul_tiles::kInner;
using matmul_tiles::kPair;
using matmul_tiles::Operand;
using matmul_tiles::Plan;
using matmul_tiles::plan_for;
using matmul_tiles::Problem;
using matmul_tiles::product_of;
using matmul_tiles::Result;
using matmul_tiles::Worker;

void run(const Problem& problem, Bf16Unit unit, const Result& result) {
  const Plan plan = plan_for(problem, unit, num_threads());
  const Operand& first = plan.transposed ? problem.b : problem.a;
  const Operand& second = plan.transposed ? problem.a : problem.b;
  const std::int64_t rows = ceil_div(first.size, kPair);
  const std::int64_t columns = ceil_div(second.size, kPair);
  const Worker::Size area{ceil_div(rows, plan.row_parts), ceil_div(columns, plan.column_parts)};
  const std::int64_t parts = plan.row_parts * plan.column_parts;
  parallel_for(
      problem.batch.numel() * parts, plan.grain, [&](std::int64_t begin, std::int64_t end) {
        Worker worker(unit, first, area);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i % parts / plan.column_parts;
          const std::int64_t column = i % parts % plan.column_parts;
          worker.compute(
              product_of(problem, plan.transposed, result, i / parts),
              {rows * row / plan.row_parts, rows * (row + 1) / plan.row_parts,
               columns * column / plan.column_parts, columns * (column + 1) / plan.column_parts});
        }
      });
}

Problem matmul_problem(const KernelArgs& args, const Tensor& a, const Tensor& b) {
  const auto& attrs = args.attrs<MatmulAttrs>();
  return describe(a, attrs.transpose_a, b, attrs.transpose_b, args.output());
}

Problem linear_problem(const KernelArgs& args, const Tensor& a, const Tensor& b) {
  return describe(a, false, b, true, args.output());
}

using ProblemOf = Problem (*)(const KernelArgs&, const Tensor& a, const Tensor& b);

Problem as_given(const KernelArgs& args, ProblemOf problem_of) {
  return problem_of(args, args.input(0), args.input(1));
}

void run(const KernelArgs& args, ProblemOf problem_of, Bf16Unit unit, bool relu = false) {
  Problem problem = as_given(args, problem_of);
  Tensor copies[2];
  const Tensor* a = &args.input(0);
  const Tensor* b = &args.input(1);
  // For example, the gradient of a sum().
  if (!problem.a_is_dense) a = &(copies[0] = dense(*a, Format::kContiguous));
  if (!problem.b_is_dense) b = &(copies[1] = dense(*b, Format::kContiguous));
  if (copies[0].defined() || copies[1].defined()) problem = problem_of(args, *a, *b);
  problem.a.data = a->data<BFloat16>();
  problem.b.data = b->data<BFloat16>();
  const Tensor& out = args.output();
  Result result{.data = out.mutable_raw_data(),
                .stride = problem.b.size,
                .wide = out.dtype() == DType::kF32,
                .rows = problem.a.size,
                .columns = problem.b.size};
  if (args.has(2)) {
    result.bias = args.input(2).raw_data();
    result.wide_bias = args.input(2).dtype() == DType::kF32;
  }
  result.relu = relu;
  run(problem, unit, result);
}

// Whether dot products are faster than oneDNN here. oneDNN runs at their full rate, too, once its
// call has begun. mezzo's kernel wins if all of these hold:
// * lines of both operands are contiguous, as in linear(): 0.4 to 1 of oneDNN's time, others 1 to
//   1.1;
// * the tiles are not mostly empty, since empty and full tiles cost the same;
// * one size is at most 128, or the product is small altogether;
// * the sums are not long.
bool suits_dots(const Problem& p) {
  constexpr std::int64_t kNarrow = 128;
  constexpr std::int64_t kFew = std::int64_t{256} * 256 * 256;
  constexpr std::int64_t kLong = 16384;
  const std::int64_t whole =
      p.a.tiles() * p.b.tiles() * kTileRows * kTileRows * p.a.blocks() * kInner;
  const std::int64_t products = p.a.size * p.b.size * p.a.inner;
  const bool is_small = std::min({p.a.size, p.b.size, p.a.inner}) <= kNarrow || products <= kFew;
  return p.a.inner_dense && p.b.inner_dense && whole <= 2 * products && is_small &&
         p.a.inner <= kLong;
}

Support supports_result(const KernelArgs& args) {
  const auto fits = [](const Tensor& tensor) {
    return tensor.is_dense() && (tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kBf16);
  };
  if (!fits(args.output())) return Support::no("the result is not a dense block of f32 or bf16");
  if (args.has(2) && !fits(args.input(2))) {
    return Support::no("the bias is not a dense block of f32 or bf16");
  }
  return Support::yes();
}

Support supports(const KernelArgs& args, ProblemOf problem_of) {
  const std::optional<Bf16Unit> unit = bf16_unit();
  if (!unit) return Support::no("this CPU has neither AMX nor a fast bf16 dot product");
  for (std::size_t i = 0; i < 2; ++i) {
    if (args.input(i).dtype() != DType::kBf16) return Support::no("only bf16 is supported");
    if (args.input(i).numel() == 0) return Support::no("an input has no elements");
  }
  const Support result = supports_result(args);
  if (!result) return result;
  if (tiles_take_all()) return Support::yes();
  const Problem problem = as_given(args, problem_of);
  if (!problem.a_is_dense || !problem.b_is_dense) {
    return Support::no("an operand is dense along neither axis");
  }
  return suits_dots(problem) ? Support::yes() : Support::no("oneDNN's dot products are as fast");
}

// The result by rows; a group is two tiles high. Every thread makes its own copies of the second
// operand.
class Rows final : public ResultRows {
 public:
  Rows(const KernelArgs& args, Bf16Unit unit)
      : problem_(as_given(args, matmul_problem)),
        unit_(unit),
        a_(args.input(0)),
        b_(args.input(1)) {}

  std::int64_t groups() const override { return ceil_div(problem_.a.size, kPair); }
  std::int64_t group_elements() const override { return kPair * problem_.b.size; }

  void compute(std::int64_t begin, std::int64_t end, Use use) const override {
    Problem problem = problem_;
    problem.a.data = a_.data<BFloat16>();
    problem.b.data = b_.data<BFloat16>();
    const Result result{
        .stride = problem.b.size, .wide = true, .rows = problem.a.size, .columns = problem.b.size};
    const std::int64_t columns = ceil_div(problem.b.size, kPair);
    // A strip of 256 KB stays in the second-level cache until it is used.
    constexpr std::int64_t kMostColumns = 64;
    Worker worker(unit_, problem.a, {end - begin, std::min(columns, kMostColumns)});
    worker.compute_for(product_of(problem, false, result, 0), {begin, end, 0, columns}, use);
  }

 private:
  Problem problem_;
  Bf16Unit unit_;
  Tensor a_, b_;
};

}  // namespace

std::unique_ptr<ResultRows> matmul_tiles_rows(const KernelArgs& args) {
  const Problem problem = as_given(args, matmul_problem);
  const bool can_be_read = problem.a_is_dense && problem.b_is_dense;
  const bool is_one_run = problem.a.blocks() <= matmul_tiles::kMostBlocks;
  if (args.output().dtype() != DType::kF32 || args.has(2) || problem.batch.numel() != 1 ||
      !is_one_run || !can_be_read) {
    return {};
  }
  return std::make_unique<Rows>(args, *bf16_unit());
}

bool tiles_take_all() {
#if MEZZO_NEON_DOTS
  return bf16_unit().has_value();
#else
  return bf16_unit() == Bf16Unit::kTiles;
#endif
}

Support supports_matmul_tiles(const KernelArgs& args) { return supports(args, matmul_problem); }
Support supports_linear_tiles(const KernelArgs& args) { return supports(args, linear_problem); }
void run_matmul_tiles(const KernelArgs& args) { run_matmul_tiles(args, *bf16_unit()); }
void run_linear_tiles(const KernelArgs& args) { run_linear_tiles(args, *bf16_unit()); }

Support supports_linear_activation_tiles(const KernelArgs& args) {
  const Activation activation = args.attrs<LinearActivationAttrs>().activation;
  if (activation != Activation::kRelu) return Support::no("only relu can be fused");
  return supports_linear_tiles(args);
}
void run_linear_activation_tiles(const KernelArgs& args) {
  run(args, linear_problem, *bf16_unit(), true);
}

void run_matmul_tiles(const KernelArgs& args, Bf16Unit unit) { run(args, matmul_problem, unit); }
void run_linear_tiles(const KernelArgs& args, Bf16Unit unit) { run(args, linear_problem, unit); }

}  // namespace mezzo::kernels
