// Matrix products and convolutions followed by an activation, as one operation. They have no
// gradient: graph mode creates them from two calls once the gradients are known, and eager code
// does not need them.
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

constexpr PrecisionRule kRule{.lower = PrecisionClass::kLower,
                              .cast_mask = 0b011,
                              .reason =
                                  "as for the product, whose result is rounded before the "
                                  "activation, as it is between two calls"};

// Infers like the product, which has its own attributes type.
void infer_as(Infer& infer, const OpDef& product, const Attrs& attrs) {
  std::vector<const Tensor*> inputs;
  for (std::size_t i = 0; i < infer.size(); ++i) inputs.push_back(&infer.input(i));
  Infer plain(infer.op(), inputs, attrs);
  product.infer(plain);
  const TensorSpec& y = plain.outputs()[0];
  infer.output(y.shape, y.dtype, y.format);
}

double flops_of(const OpDef& product, Inputs inputs, std::span<const Tensor> outputs,
                const Attrs& attrs) {
  return product.flops(inputs, outputs, attrs);
}

// The product's samples, with ReLU. GELU is left out: the possible error of its 16-bit results
// depends on a rounding that the oracle does not make.
template <class WithRelu>
std::vector<Sample> samples_of(const OpDef& product, const WithRelu& with_relu) {
  std::vector<Sample> samples = product.samples();
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
    .infer = [](Infer& infer) { infer_as(infer, ops::linear, {}); },
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return flops_of(ops::linear, inputs, outputs, {}); },
    .samples =
        [] {
          return samples_of(ops::linear, [](const Attrs&) { return LinearActivationAttrs{}; });
        },
    .exact = true,
};

extern const OpDef matmul_activation{
    .name = "matmul_activation",
    .doc = "relu or gelu of matmul(a, b) plus bias",
    .precision = kRule,
    .infer =
        [](Infer& infer) {
          infer_as(infer, ops::matmul, infer.attrs<MatmulActivationAttrs>().product);
        },
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          return flops_of(ops::matmul, inputs, outputs, attrs.as<MatmulActivationAttrs>().product);
        },
    .samples = [] { return samples_of(ops::matmul, with_relu<MatmulActivationAttrs>); },
    .exact = true,
};

extern const OpDef conv2d_activation{
    .name = "conv2d_activation",
    .doc = "relu or gelu of conv2d(x, weight, bias)",
    .precision = kRule,
    .infer =
        [](Infer& infer) {
          infer_as(infer, ops::conv2d, infer.attrs<Conv2dActivationAttrs>().product);
        },
    .flops =
        [](Inputs inputs, std::span<const Tensor> outputs, const Attrs& attrs) {
          return flops_of(ops::conv2d, inputs, outputs, attrs.as<Conv2dActivationAttrs>().product);
        },
    .samples = [] { return samples_of(ops::conv2d, with_relu<Conv2dActivationAttrs>); },
    .exact = true,
};

}  // namespace ops
}  // namespace mezzo
