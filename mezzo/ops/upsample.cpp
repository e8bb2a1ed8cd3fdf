#include "mezzo/ops/upsample.h"

#include <limits>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo {
namespace {

Size2d checked_scale(const Infer& infer) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const Size2d scale = infer.attrs<UpsampleAttrs>().scale;
  infer.check(scale.h >= 1 && scale.w >= 1 && scale.h <= kMost && scale.w <= kMost,
              "the scale must be whole numbers from 1 to ", kMost, ", it is ", scale,
              ". Use slice() to make images smaller");
  return scale;
}

void infer_upsample(Infer& infer) {
  infer.check_rank(0, 4, "x");
  infer.check_floating(0, "x");
  const Size2d scale = checked_scale(infer);
  const Shape& x = infer.shape(0);
  infer.check(x[2] <= kMostPixels / scale.h && x[3] <= kMostPixels / scale.w, "images of size ",
              Size2d(x[2], x[3]), " times ", scale, " have more than ", kMostPixels,
              " pixels on a side. Use a smaller scale");
  infer.output({x[0], x[1], x[2] * scale.h, x[3] * scale.w}, infer.dtype(0), Format::kChannelsLast);
}

void infer_upsample_grad(Infer& infer) {
  infer.check_rank(0, 4, "grad");
  infer.check_floating(0, "grad");
  const Size2d scale = checked_scale(infer);
  const Shape& grad = infer.shape(0);
  infer.check(grad[2] % scale.h == 0 && grad[3] % scale.w == 0, "the gradient ", grad,
              " is not that of images enlarged by ", scale, ". Give it the size of the result");
  infer.output({grad[0], grad[1], grad[2] / scale.h, grad[3] / scale.w}, infer.dtype(0),
               Format::kChannelsLast);
}

struct UpsampleCase {
  Shape x;
  UpsampleAttrs attrs{};
};

std::vector<UpsampleCase> upsample_cases() {
  return {{{2, 3, 4, 5}, {2}},       {{1, 17, 3, 2}, {{1, 3}}}, {{2, 33, 2, 2}, {{4, 2}}},
          {{1, 64, 5, 3}, {{3, 1}}}, {{3, 1, 7, 6}, {2}},       {{2, 8, 1, 1}, {5}},
          {{0, 3, 4, 4}, {2}}};
}

}  // namespace

namespace ops {

extern const OpDef upsample_nearest2d_grad;

extern const OpDef upsample_nearest2d{
    .name = "upsample_nearest2d",
    .doc = "x [n, c, h, w] with every pixel repeated down and across",
    .precision = {.reason = "moves data without arithmetic"},
    .infer = infer_upsample,
    .backward =
        [](Backward& ctx) {
          ctx.set(
              0, call_one(ops::upsample_nearest2d_grad, {&ctx.grad()}, ctx.attrs<UpsampleAttrs>()));
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const UpsampleCase& c : upsample_cases()) samples.push_back({{{c.x}}, c.attrs});
      return samples;
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3, 4}}}, UpsampleAttrs{2}, "x must have 4 dimensions"},
              {{{{2, 3, 4, 4}}},
               UpsampleAttrs{{2, 0}},
               "the scale must be whole numbers from 1 to 2147483647, it is [2, 0]"}};
    },
    .exact = true,
};

extern const OpDef upsample_nearest2d_grad{
    .name = "upsample_nearest2d_grad",
    .doc = "the gradient of upsample_nearest2d: every pixel's sum over its repetitions",
    .precision = {.reason =
                      "part of a backward pass, which runs in its forward's dtype; sums are kept "
                      "in f32"},
    .infer = infer_upsample_grad,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::upsample_nearest2d, {&ctx.grad()}, ctx.attrs<UpsampleAttrs>()));
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const auto& [x, attrs] : upsample_cases()) {
        const auto [h, w] = attrs.scale;
        samples.push_back({{{{x[0], x[1], x[2] * h, x[3] * w}}}, attrs, h * w});
      }
      return samples;
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3, 4, 5}}}, UpsampleAttrs{2}, "is not that of images enlarged by [2, 2]"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor upsample_nearest2d(const Tensor& x, Size2d scale) {
  return call_one(ops::upsample_nearest2d, {&x}, UpsampleAttrs{scale});
}

}  // namespace mezzo
