// Products with an activation behind them. They have no gradient: graph mode makes them of two
// calls when the gradients are known already, and plain code has no need of them.
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/registry.h"

namespace mezzo {
namespace {

constexpr const char* kReason =
    "joined in graph mode from two calls whose precision was decided: the product's result is "
    "rounded before the activation, as it is between two calls";

const OpDef& linear_op() {
  static const OpDef* const op = find_op("linear");
  return *op;
}
const OpDef& conv2d_op() {
  static const OpDef* const op = find_op("conv2d");
  return *op;
}

// By the rules of conv2d, which has other attributes.
void infer_conv2d(Infer& infer) {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < infer.size(); ++i) inputs.push_back(&infer.input(i));
  const Attrs attrs = infer.attrs<Conv2dActivationAttrs>().conv;
  Infer plain(infer.op(), inputs, attrs);
  conv2d_op().infer(plain);
  const TensorSpec& y = plain.outputs()[0];
  infer.output(y.shape, y.dtype, y.format);
}

// Those of the product. GELU is not among them: what its 16-bit results may be off by depends on a
// rounding that the oracle does not make.
template <class WithRelu>
std::vector<Sample> samples_of(const OpDef& product, const WithRelu& with_relu) {
  std::vector<Sample> samples = product.samples();
  for (Sample& sample : samples) sample.attrs = with_relu(sample.attrs);
  return samples;
}

}  // namespace

namespace ops {

extern const OpDef linear_activation{
    .name = "linear_activation",
    .doc = "relu or gelu of linear(x, weight, bias)",
    .precision = {.cast_mask = 0b011, .reason = kReason},
    .infer = [](Infer& infer) { linear_op().infer(infer); },
    .samples =
        [] {
          return samples_of(linear_op(), [](const Attrs&) { return LinearActivationAttrs{}; });
        },
    .exact = true,
};

extern const OpDef conv2d_activation{
    .name = "conv2d_activation",
    .doc = "relu or gelu of conv2d(x, weight, bias)",
    .precision = {.cast_mask = 0b011, .reason = kReason},
    .infer = infer_conv2d,
    .samples =
        [] {
          return samples_of(conv2d_op(), [](const Attrs& attrs) {
            return Conv2dActivationAttrs{.conv = attrs.as<Conv2dAttrs>()};
          });
        },
    .exact = true,
};

}  // namespace ops
}  // namespace mezzo
