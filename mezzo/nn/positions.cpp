#include "mezzo/nn/positions.h"

#include <cmath>

#include "mezzo/nn/init.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {
namespace {

Shape table_shape(std::int64_t count, std::int64_t size, const char* name) {
  check_arg(count > 0 && size > 0, name, "sizes must be positive: ", count, " rows of ", size);
  return {count, size};
}

Tensor with_positions(const Tensor& x, const Tensor& table, std::int64_t first, const char* name) {
  check_arg(x.rank() >= 2 && x.size(-1) == table.size(1), name, "x must end in [tokens, ",
            table.size(1), "], the shape is ", x.shape(), ". Change x, or the layer's size");
  const std::int64_t tokens = first + x.size(-2);
  check_arg(tokens <= table.size(0), name, "there are ", tokens, " tokens, but only ",
            table.size(0), " positions. Make shorter sequences, or a layer with more positions");
  return add_residual(x, slice(table, 0, first, tokens));
}

Tensor sinusoids(const Shape& shape) {
  const Tensor table = empty(shape);
  auto* row = table.mutable_data<float>();
  const std::int64_t size = shape[1];
  for (std::int64_t position = 0; position < shape[0]; ++position, row += size) {
    for (std::int64_t i = 0; i < size; i += 2) {
      // In f64: an f32 angle of position 100 000 has an error of 0.004.
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(size));
      row[i] = static_cast<float>(std::sin(angle));
      row[i + 1] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace

LearnedPositions::LearnedPositions(std::int64_t count, std::int64_t size)
    : weight_(empty(table_shape(count, size, "LearnedPositions"))) {
  init::normal(weight_, 0, 1);
  add_parameter("weight", weight_);
}

Tensor LearnedPositions::forward(const Tensor& x) {
  return with_positions(x, weight_, 0, "LearnedPositions");
}

Tensor LearnedPositions::from(std::int64_t first, const Tensor& x) {
  check_arg(first >= 0, "LearnedPositions", "the first position must not be negative: ", first);
  return run(x, [&](const Tensor& input) {
    return with_positions(input, weight_, first, "LearnedPositions");
  });
}

Tensor LearnedPositions::at(const Tensor& positions, const Tensor& x) {
  return run(x, [&](const Tensor& input) {
    Shape wanted = positions.shape();
    wanted.push_back(weight_.size(1));
    check_arg(input.shape() == wanted, "LearnedPositions", "x must have the shape ", wanted,
              ", it has ", input.shape(), ". Give a position for each token");
    return add_residual(input, embedding(weight_, positions));
  });
}

SinusoidalPositions::SinusoidalPositions(std::int64_t count, std::int64_t size) {
  const Shape shape = table_shape(count, size, "SinusoidalPositions");
  check_arg(size % 2 == 0, "SinusoidalPositions", "the size must be even, for pairs of sine and ",
            "cosine, not ", size);
  table_ = sinusoids(shape);
  add_buffer("table", table_);
}

Tensor SinusoidalPositions::forward(const Tensor& x) {
  return with_positions(x, table_, 0, "SinusoidalPositions");
}

}  // namespace mezzo::nn
