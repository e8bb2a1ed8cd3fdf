#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls use(i, o) for every element i of the input and the output element o it is reduced into.
template <class Use>
void for_each_reduced(const RefArgs& args, Use use) {
  const RefTensor& x = args.inputs[0];
  const RefTensor kept{nullptr, reduced_shape(x.shape, args.attrs<ReduceAttrs>(), true)};
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    use(i, broadcast_offset(unravel(i, x.shape), kept));
  }
}

}  // namespace

extern const RefKernel sum = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  for (std::int64_t o = 0; o < out.numel(); ++o) out[o] = 0;
  for_each_reduced(args, [&](std::int64_t i, std::int64_t o) { out[o] += args.inputs[0][i]; });
};

extern const RefKernel mean = [](const RefArgs& args) {
  sum(args);
  const RefTensor& out = args.outputs[0];
  const double count =
      static_cast<double>(args.inputs[0].numel()) / static_cast<double>(out.numel());
  for (std::int64_t o = 0; o < out.numel(); ++o) out[o] /= count;
};

extern const RefKernel max = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  for (std::int64_t o = 0; o < out.numel(); ++o) {
    out[o] = -std::numeric_limits<double>::infinity();
  }
  for_each_reduced(args, [&](std::int64_t i, std::int64_t o) {
    const double x = args.inputs[0][i];
    if (x > out[o] || std::isnan(x)) out[o] = x;
  });
};

// Inputs: the gradient, x and its maximum y. grad and y have size 1 along the reduced axes.
extern const RefKernel max_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  const RefTensor& y = args.inputs[2];
  std::vector<double> ties(static_cast<std::size_t>(y.numel()), 0.0);
  const auto wins = [&](std::int64_t i, std::int64_t o) {
    return x[i] == y[o] || (std::isnan(x[i]) && std::isnan(y[o]));
  };
  for (const bool counting : {true, false}) {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t o = broadcast_offset(unravel(i, x.shape), y);
      if (counting) {
        ties[o] += wins(i, o) ? 1 : 0;
      } else {
        args.outputs[0][i] = wins(i, o) ? grad[o] / ties[o] : 0;
      }
    }
  }
};

}  // namespace mezzo::kernels::ref
