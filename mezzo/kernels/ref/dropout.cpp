#include "mezzo/core/random.h"
#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel dropout = [](const RefArgs& args) {
  const auto& attrs = args.attrs<DropoutAttrs>();
  const RefTensor& x = args.inputs[0];
  const RandomPosition place = attrs.place(args.has(1) ? args.inputs[1].data : nullptr);
  const Strides strides = strides_for(x.shape, attrs.format);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const Shape index = unravel(i, x.shape);
    std::uint64_t word = place.offset;
    for (std::size_t axis = 0; axis < index.rank(); ++axis) {
      word += static_cast<std::uint64_t>(index[axis] * strides[axis]);
    }
    Generator generator;
    generator.set_position({place.seed, word});
    args.outputs[0][i] = generator.uniform() < attrs.p ? 0 : x[i] / (1 - attrs.p);
  }
};

}  // namespace mezzo::kernels::ref
