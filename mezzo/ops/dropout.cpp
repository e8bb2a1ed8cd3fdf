#include "mezzo/ops/dropout.h"

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/dropout_attrs.h"

namespace mezzo {
namespace {

constexpr std::size_t kStart = 1;  // the optional input: attrs.position is relative to it

}  // namespace

namespace ops {

extern const OpDef dropout{
    .name = "dropout",
    .doc = "0 with probability p, else x / (1 - p); a start, i64 [4], moves the position",
    .precision = {.cast_mask = 0b01,
                  .reason = "chooses and scales with one rounding; a mask is the same in every "
                            "dtype"},
    .saves = {.inputs = 1U << kStart},
    .infer =
        [](Infer& infer) {
          const auto& attrs = infer.attrs<DropoutAttrs>();
          infer.check_floating(0, "x");
          infer.check(attrs.p >= 0 && attrs.p <= 1, "p must be in [0, 1]: ", attrs.p,
                      ". Give the probability that an element is dropped");
          const bool fits = attrs.format == Format::kContiguous || infer.shape(0).rank() == 4;
          infer.check(fits, "channels-last is for 4 dimensions, the shape is ", infer.shape(0),
                      ". Use Format::kContiguous");
          if (infer.has(kStart)) {
            const bool is_place =
                infer.dtype(kStart) == DType::kI64 && infer.shape(kStart) == Shape{kPositionParts};
            infer.check(is_place, "the start must be ", DType::kI64, Shape{kPositionParts}, ": ",
                        infer.dtype(kStart), infer.shape(kStart),
                        ". Give the parts of a place in the stream");
          }
          infer.output(infer.shape(0), infer.dtype(0), attrs.format);
        },
    // The backward pass applies the same mask again: the operation is linear and equals its own
    // gradient.
    .backward =
        [](Backward& ctx) {
          const Tensor start = ctx.has_input(kStart) ? ctx.input(kStart) : Tensor();
          ctx.set(0, call_one(ops::dropout, {&ctx.grad(), &start}, ctx.attrs<DropoutAttrs>()));
        },
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      const DropoutAttrs half{0.5, {11, 0}, Format::kContiguous};
      const SampleInput start{{kPositionParts}, 0, 0x1p32, true};
      return {{{{{1000}}}, half},
              {{{{2, 3, 4, 5}}}, DropoutAttrs{0.25, {3, 8}, Format::kContiguous}, 1, 2},
              {{{{2, 3, 4, 5}}}, DropoutAttrs{0.25, {3, 8}, Format::kChannelsLast}, 1, 2},
              {{{{0}}}, half},
              {{{{1000}}}, DropoutAttrs{1, {11, 0}, Format::kContiguous}},
              {{{{1000}}, start}, half},
              {{{{2, 3, 4, 5}}, start}, DropoutAttrs{0.25, {0, 8}, Format::kChannelsLast}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}}}, DropoutAttrs{1.5, {}, Format::kContiguous}, "p must be in [0, 1]: 1.5"},
              {{{{2}}}, DropoutAttrs{-0.5, {}, Format::kContiguous}, "p must be in [0, 1]: -0.5"},
              {{{{2}}, {{2}, 0, 4, true}}, DropoutAttrs{}, "the start must be i64[4]: i64[2]"},
              {{{{2}}, {{4}}}, DropoutAttrs{}, "the start must be i64[4]: f32[4]"}};
    },
};

}  // namespace ops

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  check_arg(p >= 0 && p <= 1, "dropout", "p must be in [0, 1]: ", p);
  if (!training || p == 0) return x;
  const RandomPosition position = generator.reserve(static_cast<std::uint64_t>(x.numel()));
  const Tensor start;
  return call_one(ops::dropout, {&x, &start}, DropoutAttrs{p, position, x.format()});
}

}  // namespace mezzo
