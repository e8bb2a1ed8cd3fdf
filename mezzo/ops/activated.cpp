// Products with an activation behind them. They have no gradient: graph mode makes them of two
// calls when the gradients are known already, and plain code has no need of them.
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/registry.h"

namespace mezzo {
namespace {

constexpr PrecisionRule kRule{
    .bf16 = PrecisionClass::kLower,
    .f16 = PrecisionClass::kLower,
    .cast_mask = 0b011,
    .reason =
        "that of the product, whose result is rounded before the activation, as it is between "
        "two calls"};

// By the rules of the product, which has other attributes.
void infer_as(Infer& infer, const char* product, const Attrs& attrs) {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < infer.size(); ++i) inputs.push_back(&infer.input(i));
  Infer plain(infer.op(), inputs, attrs);
  find_op(product)->infer(plain);
  const TensorSpec& y = plain.outputs()[0];
  infer.output(y.shape, y.dtype, y.format);
}

double flops_of(const char* product, Inputs inputs, std::span<const Tensor> outputs,
                const Attrs& attrs) {
  return find_op(product)->flops(inputs, outputs, attrs);
}

// Those of the product. GELU is not among them: what its 16-bit results may be off by depends on a
// rounding that the oracle does not make.
template <class WithRelu>
std::vector<Sample> samples_of(const char* product, const WithRelu& with_relu) {
  std::vector<Sample> samples = find_op(product)->samples();
  for (Sample& sample : samples) sample.attrs = with_relu(sample.attrs);
  return samples;
}

template <class A>
A with_relu(const Attrs& product) {
  return {.product = product.as<decltype(A::product)>()};
}

}  // namespace

namespace ops {

extern const OpDef linear_activation{
    .name = "linear_activation",
    .doc = "relu or gelu of linear(x, weight, bias)",
    .precision = kRule,
    .infer = [](Infer& infer) { infer_as(infer, "linear", {}); },
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return flops_of("linear", inputs, outputs, {}); },
    .samples =
        [] { return samples_of("linear", [](const Attrs&) { return LinearActivationAttrs{}; }); },
    .exact = true,
};

extern const OpDef matmul_activation{
    .name = "matmul_activation",
    .doc = "relu or gelu of matmul(a, b) plus bias",
    .precision = kRule,
    .infer =
        [](Infer& infer) {
          infer_as(infer, "matmul", infer.attrs<MatmulActivationAttrs>().product);
        },
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          return flops_of("matmul", inputs, outputs, attrs.as<MatmulActivationAttrs>().product);
        },
    .samples = [] { return samples_of("matmul", with_relu<MatmulActivationAttrs>); },
    .exact = true,
};

extern const OpDef conv2d_activation{
    .name = "conv2d_activation",
    .doc = "relu or gelu of conv2d(x, weight, bias)",
    .precision = kRule,
    .infer =
        [](Infer& infer) {
          infer_as(infer, "conv2d", infer.attrs<Conv2dActivationAttrs>().product);
        },
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          return flops_of("conv2d", inputs, outputs, attrs.as<Conv2dActivationAttrs>().product);
        },
    .samples = [] { return samples_of("conv2d", with_relu<Conv2dActivationAttrs>); },
    .exact = true,
};

}  // namespace ops
}  // namespace mezzo
