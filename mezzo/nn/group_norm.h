// Group and instance normalization layers.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct GroupNormOptions {
  double eps = 1e-5;   // added to the variance
  bool affine = true;  // with `weight` and `bias`
};

// Normalises the pixels of c / groups neighbouring channels of x [n, c] or [n, c, h, w], separately
// for each sample, to mean 0 and variance 1. Then scales each channel by `weight` [c] and shifts it
// by `bias` [c], which begin as 1 and 0 and are f32 whatever the dtype of x. The result does not
// depend on the batch size and is the same in training and inference. It has the shape and dtype of
// x. When called, throws ArgumentError for what group_norm() refuses.
class GroupNorm : public Module {
 public:
  // Throws ArgumentError unless both are positive and `groups` divides the channels.
  GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions options = {});

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }  // undefined unless affine
  const Tensor& bias() const { return bias_; }      // undefined unless affine

 private:
  std::int64_t groups_;
  std::int64_t channels_;
  double eps_;
  Tensor weight_;
  Tensor bias_;
};

struct InstanceNorm2dOptions {
  double eps = 1e-5;    // added to the variance
  bool affine = false;  // with `weight` and `bias`
};

// GroupNorm with one group per channel, for images [n, c, h, w]. As in PyTorch, it has no
// parameters by default.
class InstanceNorm2d : public GroupNorm {
 public:
  // Throws ArgumentError unless channels > 0.
  explicit InstanceNorm2d(std::int64_t channels, InstanceNorm2dOptions options = {})
      : GroupNorm(channels, channels, {options.eps, options.affine}) {}

  // Also throws ArgumentError unless x is [n, c, h, w].
  Tensor forward(const Tensor& x) override;
};

}  // namespace mezzo::nn
