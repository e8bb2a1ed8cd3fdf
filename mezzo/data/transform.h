// Transform: one step of a pipeline, whatever its type. mezzo's own steps are in transforms.h,
// color_transforms.h and geometry_transforms.h. A user's step is one of three:
//
//   a struct that makes images, with
//     Shape output_shape(const Shape& input) const;
//     void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const;
//   a struct that transforms values, with
//     void check(std::int64_t channels) const;
//     float value(float value, std::size_t channel) const;
//   a function void(Image&, Generator&), which changes pixels but not the shape.
//
// Shapes are [channels, height, width].
//   output_shape   the shape after the step. A height and width of 0 in `input` stand for varying
//                  sizes. Throws ArgumentError if the parameters are invalid or the step cannot
//                  take such images.
//   apply          writes the new image to `out`, dense, channels innermost.
//   check          throws ArgumentError unless the parameters fit that many channels.
//   value          transforms `value` in a channel. Such steps are applied in f32, in order, to the
//                  256 possible bytes, and so cost nothing per image.
//
// Randomness comes from `random` alone, a stream that belongs to this image in this epoch. Batches
// then do not depend on the number of workers and are the same after a restart. All members are
// const and are called on several threads at once.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

template <class T>
concept ImageTransform = requires(const T& step, const Shape& shape, const ImageView& in,
                                  Generator& random, std::span<std::uint8_t> out) {
  { step.output_shape(shape) } -> std::convertible_to<Shape>;
  step.apply(in, random, out);
};

template <class T>
concept NumberTransform = requires(const T& step, std::int64_t channels, float number) {
  step.check(channels);
  { step.value(number, std::size_t{}) } -> std::convertible_to<float>;
};

template <class T>
concept PixelFunction = std::invocable<const T&, Image&, Generator&>;

// Wraps a function as a step that makes images.
template <PixelFunction F>
struct AppliedFunction {
  F function;

  Shape output_shape(const Shape& input) const { return input; }
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const {
    Image image;
    image.reshape(in.shape());
    auto to = image.pixels.begin();
    for (std::int64_t y = 0; y < in.height; ++y) {
      to = std::copy_n(in.row(y), in.width * in.channels, to);
    }
    function(image, random);
    check_arg(image.shape == in.shape() && image.pixels.size() == out.size(), "map",
              "a function has changed the shape of an image: ", in.shape(), " to ", image.shape,
              ". Write a struct with output_shape() and apply() instead");
    std::ranges::copy(image.pixels, out.begin());
  }
};

// Copies share the step, which never changes.
class Transform {
 public:
  template <ImageTransform T>
  Transform(T step)  // NOLINT(google-explicit-constructor): lists of steps are written as such
      : step_(std::make_shared<ImageStep<T>>(std::move(step))), makes_images_(true) {}
  template <NumberTransform T>
  Transform(T step)  // NOLINT(google-explicit-constructor)
      : step_(std::make_shared<NumberStep<T>>(std::move(step))) {}
  template <PixelFunction F>
  requires(!ImageTransform<F> && !NumberTransform<F>)
      Transform(F function)  // NOLINT(google-explicit-constructor)
      : Transform(AppliedFunction<F>{std::move(function)}) {}

  // False for steps that transform values, which leave images alone.
  bool makes_images() const { return makes_images_; }
  Shape output_shape(const Shape& input) const { return step_->output_shape(input); }
  void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const {
    step_->apply(in, random, out);
  }
  // Only for steps that transform values.
  void check(std::int64_t channels) const { step_->check(channels); }
  float value(float value, std::size_t channel) const { return step_->value(value, channel); }

 private:
  struct Step {
    virtual ~Step() = default;
    virtual Shape output_shape(const Shape& input) const { return input; }
    virtual void apply(const ImageView& /*in*/, Generator& /*random*/,
                       std::span<std::uint8_t> /*out*/) const {}
    virtual void check(std::int64_t /*channels*/) const {}
    virtual float value(float value, std::size_t /*channel*/) const { return value; }
  };

  template <class T>
  struct ImageStep final : Step {
    explicit ImageStep(T wrapped) : step(std::move(wrapped)) {}
    Shape output_shape(const Shape& input) const override { return step.output_shape(input); }
    void apply(const ImageView& in, Generator& random, std::span<std::uint8_t> out) const override {
      step.apply(in, random, out);
    }
    T step;
  };

  template <class T>
  struct NumberStep final : Step {
    explicit NumberStep(T wrapped) : step(std::move(wrapped)) {}
    void check(std::int64_t channels) const override { step.check(channels); }
    float value(float value, std::size_t channel) const override {
      return step.value(value, channel);
    }
    T step;
  };

  std::shared_ptr<const Step> step_;
  bool makes_images_ = false;
};

}  // namespace mezzo::data
