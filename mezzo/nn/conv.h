// Convolution layers.
#pragma once

#include <functional>

#include "mezzo/nn/module.h"
#include "mezzo/ops/window.h"

namespace mezzo::nn {

// Writes the initial values of a parameter, usually with the functions of init.h.
using Initializer = std::function<void(const Tensor&)>;

struct Conv2dOptions {
  Size2d stride = 1;
  Padding2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Initializer weight_init{};  // instead of PyTorch's default
};

// conv2d of x [n, in, h, w] with `weight` [out, in / groups, kh, kw] and `bias` [out], which are
// f32: [n, out, oh, ow]. Unless options say otherwise the initial values are PyTorch's, see
// init::default_weight. Throws ArgumentError if a count is not positive or not divisible by
// `groups` and, when called, for what conv2d() refuses.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
         Conv2dOptions options = {});

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without a bias

 private:
  Conv2dOptions options_;
  Tensor weight_;
  Tensor bias_;
};

struct ConvTranspose2dOptions {
  Size2d stride = 1;
  Padding2d padding = 0;
  Size2d output_padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Initializer weight_init{};  // instead of PyTorch's default
};

// conv_transpose2d of x [n, in, h, w] with `weight` [in, out / groups, kh, kw] and `bias` [out],
// which are f32: [n, out, oh, ow]. Initial values are like those of Conv2d, but fan_in is out /
// groups * kh * kw here, as in PyTorch. Throws ArgumentError as Conv2d does and, when called, for
// what conv_transpose2d() refuses.
class ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2d kernel,
                  ConvTranspose2dOptions options = {});

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without a bias

 private:
  ConvTranspose2dOptions options_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace mezzo::nn
