#include <algorithm>
#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/elementary_attrs.h"

namespace mezzo::kernels::ref {
namespace {

template <class Function>
void each(const RefArgs& args, Function f) {
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0][i] = f(args.inputs[0][i]);
  }
}

}  // namespace

extern const RefKernel log1p = [](const RefArgs& args) {
  each(args, [](double x) { return std::log1p(x); });
};
extern const RefKernel rsqrt = [](const RefArgs& args) {
  each(args, [](double x) { return 1 / std::sqrt(x); });
};
extern const RefKernel erf = [](const RefArgs& args) {
  each(args, [](double x) { return std::erf(x); });
};
extern const RefKernel sin = [](const RefArgs& args) {
  each(args, [](double x) { return std::sin(x); });
};
extern const RefKernel cos = [](const RefArgs& args) {
  each(args, [](double x) { return std::cos(x); });
};
extern const RefKernel softplus = [](const RefArgs& args) {
  each(args, [beta = args.attrs<SoftplusAttrs>().beta](double x) {
    const double t = beta * x;
    return (std::max(t, 0.0) + std::log1p(std::exp(-std::abs(t)))) / beta;
  });
};

}  // namespace mezzo::kernels::ref
