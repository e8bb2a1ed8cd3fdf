#include <vector>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// A matrix within a tensor, by its first element and the steps to the next row and column.
struct Matrix {
  const double* data = nullptr;
  std::int64_t row = 0;
  std::int64_t column = 1;
};

// Rows of out[i][j] = bias[j] + the sum of a[i][k] * b[k][j], each in the order of k. Threads share
// the rows, and the innermost loop goes along them.
void multiply(const Matrix& a, const Matrix& b, const double* bias, const Shape& sizes,
              double* out) {
  const std::int64_t columns = sizes[1];
  const std::int64_t inner = sizes[2];
  std::vector<double> rows_of_b;  // where its own are not
  const double* right = b.data;
  if (b.column != 1 && inner * columns > 0) {
    rows_of_b.resize(inner * columns);
    for (std::int64_t k = 0; k < inner; ++k) {
      for (std::int64_t j = 0; j < columns; ++j) {
        rows_of_b[k * columns + j] = b.data[k * b.row + j * b.column];
      }
    }
    right = rows_of_b.data();
  }
  const std::int64_t step = rows_of_b.empty() ? b.row : columns;
  const std::int64_t grain = kElementGrain / (columns * inner + 1) + 1;
  parallel_for(sizes[0], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double* row = out + i * columns;
      for (std::int64_t j = 0; j < columns; ++j) row[j] = bias != nullptr ? bias[j] : 0;
      for (std::int64_t k = 0; k < inner; ++k) {
        const double left = a.data[i * a.row + k * a.column];
        for (std::int64_t j = 0; j < columns; ++j) row[j] += left * right[k * step + j];
      }
    }
  });
}

// The matrix of a batch of them at the coordinates `index` of the result.
Matrix matrix_of(const RefTensor& tensor, Shape index, bool transposed) {
  const std::size_t last = index.rank() - 1;
  index[last] = index[last - 1] = 0;
  const std::int64_t width = tensor.shape.back();
  return {.data = tensor.data + broadcast_offset(index, tensor),
          .row = transposed ? 1 : width,
          .column = transposed ? width : 1};
}

}  // namespace

extern const RefKernel matmul = [](const RefArgs& args) {
  const auto& attrs = args.attrs<MatmulAttrs>();
  const RefTensor& a = args.inputs[0];
  const RefTensor& b = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const std::size_t last = out.shape.rank() - 1;
  const Shape sizes{out.shape[last - 1], out.shape[last],
                    a.shape[a.shape.rank() - (attrs.transpose_a ? 2 : 1)]};
  const std::int64_t elements = sizes[0] * sizes[1];
  for (std::int64_t at = 0; at < out.numel(); at += elements) {
    const Shape index = unravel(at, out.shape);
    multiply(matrix_of(a, index, attrs.transpose_a), matrix_of(b, index, attrs.transpose_b),
             args.has(2) ? args.inputs[2].data : nullptr, sizes, out.data + at);
  }
};

extern const RefKernel linear = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& weight = args.inputs[1];  // [features, in]
  const RefTensor& out = args.outputs[0];
  const std::int64_t in = weight.shape[1];
  const std::int64_t features = weight.shape[0];
  if (out.numel() == 0) return;
  multiply({x.data, in, 1}, {weight.data, 1, in}, args.has(2) ? args.inputs[2].data : nullptr,
           {out.numel() / features, features, in}, out.data);
};

}  // namespace mezzo::kernels::ref
