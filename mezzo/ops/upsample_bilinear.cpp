// Bilinear interpolation of images, and its gradient. Both are linear, and each is the gradient of
// the other.
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/upsample.h"
#include "mezzo/ops/upsample_attrs.h"

namespace mezzo {
namespace {

void check_images(const char* op, Size2d image, Size2d size) {
  const auto is_between = [](std::int64_t pixels) { return pixels >= 1 && pixels <= kMostPixels; };
  check_arg(is_between(image.h) && is_between(image.w), op, "the images have size ", image,
            ", and need from 1 to ", kMostPixels, " pixels on each side. Give it such images");
  check_arg(is_between(size.h) && is_between(size.w), op,
            "the size of the result must be whole numbers from 1 to ", kMostPixels, ", it is ",
            size, ". Choose another size");
}

void infer_bilinear(Infer& infer) {
  infer.check_rank(0, 4, "x");
  infer.check_floating(0, "x");
  const Size2d size = infer.attrs<UpsampleBilinearAttrs>().size;
  const Shape& x = infer.shape(0);
  check_images(infer.op(), {x[2], x[3]}, size);
  infer.output({x[0], x[1], size.h, size.w}, infer.dtype(0), Format::kChannelsLast);
}

void infer_bilinear_grad(Infer& infer) {
  infer.check_rank(0, 4, "grad");
  infer.check_floating(0, "grad");
  const auto& attrs = infer.attrs<UpsampleBilinearAttrs>();
  const Shape& grad = infer.shape(0);
  check_images(infer.op(), attrs.image, attrs.size);
  infer.check(Size2d(grad[2], grad[3]) == attrs.size, "the gradient ", grad,
              " is not that of a result of size ", attrs.size, ". Give it the shape of the result");
  infer.output({grad[0], grad[1], attrs.image.h, attrs.image.w}, infer.dtype(0),
               Format::kChannelsLast);
}

struct BilinearCase {
  Shape x;
  UpsampleBilinearAttrs attrs{};
};

std::vector<BilinearCase> bilinear_cases() {
  return {{{2, 3, 4, 5}, {.size = {8, 10}}},
          {{1, 17, 3, 2}, {.size = {7, 5}}},
          {{2, 33, 5, 4}, {.size = {10, 13}, .align_corners = true}},
          {{1, 64, 5, 3}, {.size = {15, 3}}},
          {{3, 1, 7, 6}, {.size = {3, 4}}},
          {{2, 8, 1, 1}, {.size = {5, 4}}},
          {{1, 5, 6, 7}, {.size = 1}},
          {{2, 19, 6, 5}, {.size = {1, 9}, .align_corners = true}},
          {{1, 6, 11, 3}, {.size = {2, 7}, .align_corners = true}},
          {{2, 4, 1, 3}, {.size = {4, 3}, .align_corners = true}},
          {{0, 3, 4, 4}, {.size = 8}}};
}

// The largest number of results in which a pixel has a weight, along one axis.
std::int64_t most_results(const BilinearAxis& axis) {
  std::int64_t most = 0;
  for (std::int64_t pixel = 0; pixel < axis.in; ++pixel) {
    const auto [first, last] = axis.results_of(pixel);
    most = std::max(most, last - first);
  }
  return most;
}

Sample gradient_sample(const BilinearCase& c) {
  const auto [size, align_corners, image] = c.attrs;
  return {{{{c.x[0], c.x[1], size.h, size.w}}},
          UpsampleBilinearAttrs{size, align_corners, {c.x[2], c.x[3]}},
          most_results(bilinear_axis(c.x[2], size.h, align_corners)) *
              most_results(bilinear_axis(c.x[3], size.w, align_corners))};
}

}  // namespace

namespace ops {

extern const OpDef upsample_bilinear2d_grad;

extern const OpDef upsample_bilinear2d{
    .name = "upsample_bilinear2d",
    .doc = "x [n, c, h, w] at another size, with pixels interpolated down and across",
    .precision = {.reason = "sums of four pixels are kept in f32 and rounded once; no result is "
                            "larger than the largest pixel"},
    .infer = infer_bilinear,
    .backward =
        [](Backward& ctx) {
          auto attrs = ctx.attrs<UpsampleBilinearAttrs>();
          attrs.image = {ctx.input_shape(0)[2], ctx.input_shape(0)[3]};
          ctx.set(0, call_one(ops::upsample_bilinear2d_grad, {&ctx.grad()}, attrs));
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const BilinearCase& c : bilinear_cases()) samples.push_back({{{c.x}}, c.attrs, 4});
      return samples;
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3, 4}}}, UpsampleBilinearAttrs{8}, "x must have 4 dimensions"},
              {{{{2, 3, 0, 4}}}, UpsampleBilinearAttrs{8}, "the images have size [0, 4]"},
              {{{{2, 3, 4, 4}}},
               UpsampleBilinearAttrs{{2, 0}},
               "must be whole numbers from 1 to 2147483647, it is [2, 0]"}};
    },
    .ulps = 2,
};

extern const OpDef upsample_bilinear2d_grad{
    .name = "upsample_bilinear2d_grad",
    .doc =
        "the gradient of upsample_bilinear2d: every pixel's weighted sum over the results "
        "around it",
    .precision = {.reason =
                      "part of a backward pass, which runs in its forward's dtype; sums are kept "
                      "in f32"},
    .infer = infer_bilinear_grad,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::upsample_bilinear2d, {&ctx.grad()},
                              ctx.attrs<UpsampleBilinearAttrs>()));
        },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const BilinearCase& c : bilinear_cases()) samples.push_back(gradient_sample(c));
      return samples;
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3, 4, 5}}},
               UpsampleBilinearAttrs{.size = 4, .image = 2},
               "the gradient [2, 3, 4, 5] is not that of a result of size [4, 4]"},
              {{{{2, 3, 4, 4}}},
               UpsampleBilinearAttrs{.size = 4, .image = 0},
               "the images have size [0, 0]"}};
    },
    .ulps = 2,
};

}  // namespace ops

namespace {

// The size of the result for an x that has images; otherwise the call reports the error.
Size2d size_of_result(const Tensor& x, const UpsampleBilinear2dOptions& options) {
  const char* const op = ops::upsample_bilinear2d.name;
  const Size2d scale = options.scale;
  if (options.size.has_value()) {
    check_arg(scale == Size2d(1), op, "there is a scale, ", scale, ", and a size, ", *options.size,
              ". Leave one of them out");
    return *options.size;
  }
  if (x.rank() != 4) return 1;
  const Size2d image(x.size(2), x.size(3));
  check_images(op, image, 1);
  const auto fits = [](std::int64_t pixels, std::int64_t times) {
    return times >= 1 && times <= kMostPixels / pixels;
  };
  check_arg(fits(image.h, scale.h) && fits(image.w, scale.w), op,
            "the scale must be whole numbers from 1, and the result at most ", kMostPixels,
            " pixels high and wide; of images of size ", image, " it is ", scale,
            ". Use size for smaller images");
  return {image.h * scale.h, image.w * scale.w};
}

}  // namespace

Tensor upsample_bilinear2d(const Tensor& x, const UpsampleBilinear2dOptions& options) {
  const UpsampleBilinearAttrs attrs{size_of_result(x, options), options.align_corners};
  return call_one(ops::upsample_bilinear2d, {&x}, attrs);
}

}  // namespace mezzo
