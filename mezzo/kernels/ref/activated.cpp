#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/activated_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel relu;
extern const RefKernel gelu;
extern const RefKernel linear;
extern const RefKernel matmul;
extern const RefKernel conv2d;

namespace {

void activate(const RefArgs& args, Activation activation) {
  const GeluForm form = activation == Activation::kGelu ? GeluForm::kExact : GeluForm::kTanh;
  const RefKernel kernel = activation == Activation::kRelu ? relu : gelu;
  kernel({args.outputs, args.outputs, GeluAttrs{form}});
}

}  // namespace

extern const RefKernel linear_activation = [](const RefArgs& args) {
  linear(args);
  activate(args, args.attrs<LinearActivationAttrs>().activation);
};

extern const RefKernel matmul_activation = [](const RefArgs& args) {
  const auto& attrs = args.attrs<MatmulActivationAttrs>();
  matmul({args.inputs, args.outputs, attrs.product});
  activate(args, attrs.activation);
};

extern const RefKernel conv2d_activation = [](const RefArgs& args) {
  const auto& attrs = args.attrs<Conv2dActivationAttrs>();
  conv2d({args.inputs, args.outputs, attrs.product});
  activate(args, attrs.activation);
};

}  // namespace mezzo::kernels::ref
