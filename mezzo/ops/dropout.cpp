#include "mezzo/ops/dropout.h"

#include "mezzo/ops/call.h"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo {
namespace ops {

extern const OpDef dropout{
    .name = "dropout",
    .doc = "0 with probability p, else x / (1 - p)",
    .precision = {.reason = "chooses and scales with one rounding; a mask is the same in every "
                            "dtype"},
    .infer =
        [](Infer& infer) {
          const auto& attrs = infer.attrs<DropoutAttrs>();
          infer.check_floating(0, "x");
          infer.check(attrs.p >= 0 && attrs.p < 1, "p must be in [0, 1): ", attrs.p);
          const bool fits = attrs.format == Format::kContiguous || infer.shape(0).rank() == 4;
          infer.check(fits, "channels-last is for 4 dimensions, the shape is ", infer.shape(0));
          infer.output(infer.shape(0), infer.dtype(0), attrs.format);
        },
    // The same mask again: the operation is linear, and its own gradient.
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::dropout, {&ctx.grad()}, ctx.attrs<DropoutAttrs>()));
        },
    .samples = []() -> std::vector<Sample> {
      const DropoutAttrs half{0.5, {11, 0}, Format::kContiguous};
      return {{{{{1000}}}, half},
              {{{{2, 3, 4, 5}}}, DropoutAttrs{0.25, {3, 8}, Format::kContiguous}, 1, 2},
              {{{{2, 3, 4, 5}}}, DropoutAttrs{0.25, {3, 8}, Format::kChannelsLast}, 1, 2},
              {{{{0}}}, half}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}}}, DropoutAttrs{1, {}, Format::kContiguous}, "p must be in [0, 1): 1"},
              {{{{2}}}, DropoutAttrs{-0.5, {}, Format::kContiguous}, "p must be in [0, 1): -0.5"}};
    },
};

}  // namespace ops

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  check_arg(p >= 0 && p < 1, "dropout", "p must be in [0, 1): ", p);
  if (!training || p == 0) return x;
  const RandomPosition position = generator.reserve(static_cast<std::uint64_t>(x.numel()));
  return call_one(ops::dropout, {&x}, DropoutAttrs{p, position, x.format()});
}

}  // namespace mezzo
