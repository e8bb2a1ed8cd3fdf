#include "mezzo/kernels/cpu/gemm/matmul_tiles_problem.h"

#include <algorithm>

#include "mezzo/core/math.h"

namespace mezzo::kernels::matmul_tiles {
namespace {

// A batch of matrices, as lines of inner elements.
struct Matrices {
  Shape sizes, strides;  // leading axes
  std::int64_t lines = 1, line_stride = 0;
  std::int64_t inner = 1, inner_stride = 1;
};

Matrices matrices_of(const Tensor& tensor, bool inner_last) {
  Matrices m;
  const std::size_t rank = tensor.rank();
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    m.sizes.push_back(tensor.shape()[i]);
    m.strides.push_back(tensor.strides()[i]);
  }
  m.inner = tensor.shape()[rank - 1];
  m.inner_stride = tensor.strides()[rank - 1];
  if (rank >= 2) {
    m.lines = tensor.shape()[rank - 2];
    m.line_stride = tensor.strides()[rank - 2];
  }
  if (!inner_last) {
    std::swap(m.lines, m.inner);
    std::swap(m.line_stride, m.inner_stride);
  }
  return m;
}

// The step along axis `axis` of `rank` leading axes; 0 where the matrices are broadcast.
std::int64_t step(const Matrices& m, std::size_t axis, std::size_t rank) {
  const std::size_t missing = rank - m.sizes.rank();
  return axis < missing || m.sizes[axis - missing] == 1 ? 0 : m.strides[axis - missing];
}

bool set_operand(const Matrices& m, Operand& operand) {
  operand.size = m.lines;
  operand.inner = m.inner;
  const bool one_line = m.lines == 1;
  const bool one_number = m.inner == 1;
  if (m.inner_stride == 1 && !one_number) {
    operand.inner_dense = true;
    operand.stride = one_line ? 0 : m.line_stride;
  } else if (m.line_stride == 1 || one_line) {
    operand.inner_dense = false;
    operand.stride = one_number ? 0 : m.inner_stride;
  } else {
    operand.inner_dense = true;
    operand.stride = m.line_stride;
    return one_number;
  }
  return true;
}

}  // namespace

Problem describe(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                 const Tensor& out) {
  Matrices first = matrices_of(a, !transpose_a);
  const Matrices second = matrices_of(b, transpose_b);
  Problem p;
  const std::size_t rank = out.rank() >= 2 ? out.rank() - 2 : 0;
  bool merges = true;  // rows of consecutive matrices that share b are the rows of one matrix
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::int64_t size = out.shape()[axis];
    if (size == 1) continue;
    const std::int64_t a_step = step(first, axis, rank);
    const std::int64_t b_step = step(second, axis, rank);
    merges =
        merges && b_step == 0 && (first.lines == 1 || a_step == first.lines * first.line_stride);
    if (merges) {
      if (first.lines == 1) first.line_stride = a_step;
      first.lines *= size;
    } else {
      p.batch.push_back(size);
      p.a_steps.push_back(a_step);
      p.b_steps.push_back(b_step);
    }
  }
  p.a_is_dense = set_operand(first, p.a);
  p.b_is_dense = set_operand(second, p.b);
  return p;
}

// batch[0] is the innermost leading axis.
Problem::Offsets Problem::offsets(std::int64_t index) const {
  Offsets at;
  for (std::size_t i = 0; i < batch.rank(); ++i) {
    at.a += index % batch[i] * a_steps[i];
    at.b += index % batch[i] * b_steps[i];
    index /= batch[i];
  }
  return at;
}

namespace {

// Rough measured cycles per tile: for a tile product with operands in the second-level cache, and
// for the epilogue of a tile of the result.
constexpr double cost_of_product(Bf16Unit unit) { return unit == Bf16Unit::kTiles ? 28 : 270; }
constexpr double kFinish = 80;
constexpr double kTranspose = 60;

double cost_of_copy(const Operand& operand, Form form) {
  constexpr double kWeave = 40;
  constexpr double kRead = 10;  // in place
  if (form == Form::kFirst) return operand.inner_dense ? kRead : kWeave + kTranspose;
  return operand.inner_dense ? kTranspose : kWeave;
}

// The estimated cycles for a part of `rows` x `columns` tiles.
double cost_of(Bf16Unit unit, const Operand& first, const Operand& second, bool transposed,
               std::int64_t rows, std::int64_t columns) {
  const auto blocks = static_cast<double>(first.blocks());
  const auto r = static_cast<double>(rows);
  const auto c = static_cast<double>(columns);
  return blocks * (r * cost_of_copy(first, Form::kFirst) + c * cost_of_copy(second, Form::kSecond) +
                   r * c * cost_of_product(unit)) +
         r * c * (kFinish + (transposed ? kTranspose : 0));
}

}  // namespace

Plan plan_for(const Problem& problem, Bf16Unit unit, int threads) {
  // Cycles that are worth another thread: about two microseconds.
  constexpr double kGrain = 5000;
  const Operand& a = problem.a;
  const Operand& b = problem.b;
  const double plain = cost_of(unit, a, b, false, a.tiles(), b.tiles());
  const double turned = cost_of(unit, b, a, true, b.tiles(), a.tiles());
  Plan plan;
  plan.transposed = turned < plain;
  const double cost = std::min(plain, turned);
  const std::int64_t count = problem.batch.numel();
  const double most = std::max(1.0, cost * static_cast<double>(count) / kGrain);
  threads = static_cast<int>(std::min<double>(threads, most));
  // Whole products are divided first, then their rows and columns in pairs of tiles.
  const std::int64_t parts = ceil_div(threads, count);
  const Operand& first = plan.transposed ? b : a;
  const Operand& second = plan.transposed ? a : b;
  const std::int64_t rows = ceil_div(first.tiles(), 2);
  const std::int64_t columns = ceil_div(second.tiles(), 2);
  double least = 0;
  for (std::int64_t row_parts = 1; row_parts <= std::min(parts, rows); ++row_parts) {
    const std::int64_t column_parts = std::min(parts / row_parts, columns);
    const double longest =
        cost_of(unit, first, second, plan.transposed, 2 * ceil_div(rows, row_parts),
                2 * ceil_div(columns, column_parts));
    if (row_parts == 1 || longest < least) {
      least = longest;
      plan.row_parts = row_parts;
      plan.column_parts = column_parts;
    }
  }
  const auto all = static_cast<double>(plan.row_parts * plan.column_parts * count);
  plan.grain = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kGrain * all / (cost * static_cast<double>(count))));
  return plan;
}

}  // namespace mezzo::kernels::matmul_tiles
