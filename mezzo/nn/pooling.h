// Pooling layers. All keep the dtype of x, which must be floating. Windows are checked when the
// layer is called: it throws ArgumentError if none fits, or if a window could contain only padding.
#pragma once

#include <optional>

#include "mezzo/nn/module.h"
#include "mezzo/ops/window.h"

namespace mezzo::nn {

struct Pool2dOptions {
  std::optional<Size2d> stride{};  // default: the kernel's size
  Padding2d padding = 0;
  bool count_include_pad = true;  // means only: padding counts as zeros
};

// The largest value of each window of x [n, c, h, w]: [n, c, oh, ow]. Padding is never chosen.
class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2d kernel, Pool2dOptions options = {})
      : kernel_(kernel), options_(options) {}

  Tensor forward(const Tensor& x) override;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

// The mean of each window of x [n, c, h, w]: [n, c, oh, ow].
class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2d kernel, Pool2dOptions options = {})
      : kernel_(kernel), options_(options) {}

  Tensor forward(const Tensor& x) override;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

// The mean over height and width: [n, c, h, w] becomes [n, c, 1, 1].
class GlobalAvgPool2d : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

}  // namespace mezzo::nn
