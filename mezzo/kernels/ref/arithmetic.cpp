#include <cmath>

#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/affine_attrs.h"

namespace mezzo::kernels::ref {
namespace {

template <class Function>
void binary(const RefArgs& args, Function f) {
  const RefTensor& out = args.outputs[0];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const Shape index = unravel(i, out.shape);
    out[i] = f(args.inputs[0][broadcast_offset(index, args.inputs[0])],
               args.inputs[1][broadcast_offset(index, args.inputs[1])]);
  }
}

}  // namespace

extern const RefKernel add = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a + b; });
};
extern const RefKernel add_residual = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a + b; });
};
extern const RefKernel sub = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a - b; });
};
extern const RefKernel mul = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a * b; });
};
extern const RefKernel div = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a / b; });
};
extern const RefKernel maximum = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a > b || std::isnan(a) ? a : b; });
};
extern const RefKernel minimum = [](const RefArgs& args) {
  binary(args, [](double a, double b) { return a < b || std::isnan(a) ? a : b; });
};
extern const RefKernel affine = [](const RefArgs& args) {
  const auto& attrs = args.attrs<AffineAttrs>();
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0][i] = attrs.scale * args.inputs[0][i] + attrs.shift;
  }
};
extern const RefKernel div_number = [](const RefArgs& args) {
  const double divisor = args.attrs<DivNumberAttrs>().divisor;
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0][i] = args.inputs[0][i] / divisor;
  }
};

}  // namespace mezzo::kernels::ref
