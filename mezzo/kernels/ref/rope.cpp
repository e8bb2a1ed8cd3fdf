#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/rope_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel rope = [](const RefArgs& args) {
  const auto& attrs = args.attrs<RopeAttrs>();
  const RefTensor& x = args.inputs[0];
  const bool given = args.has(1);
  const RopeRows rows = rope_rows(x.shape, attrs.axis, given && args.inputs[1].shape.rank() == 2);
  const bool halves = attrs.pairing == RopePairing::kHalves;
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const std::int64_t number = rows.position_of(row);
    const double position = (given ? args.inputs[1][number] : static_cast<double>(number)) +
                            static_cast<double>(attrs.offset);
    for (std::int64_t i = 0; i < rows.pairs; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(rows.pairs);
      const double angle = position * std::pow(attrs.theta, exponent);
      const double cosine = std::cos(angle);
      const double sine = attrs.inverse ? -std::sin(angle) : std::sin(angle);
      const std::int64_t first = row * 2 * rows.pairs + (halves ? i : 2 * i);
      const std::int64_t second = first + (halves ? rows.pairs : 1);
      const double a = x[first];
      const double b = x[second];
      args.outputs[0][first] = a * cosine - b * sine;
      args.outputs[0][second] = b * cosine + a * sine;
    }
  }
};

}  // namespace mezzo::kernels::ref
