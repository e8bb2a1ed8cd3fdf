// Scalar functions in f32, for the device and for the host, where tests check them.
#pragma once

#include <cfloat>
#include <cmath>

#include "mezzo/ops/pointwise_attrs.h"

namespace mezzo::kernels::cuda::functions {

__host__ __device__ inline float sigmoid(float x) {
  // exp(-|x|) never overflows, and keeps small results for negative x accurate.
  const float e = expf(-fabsf(x));
  const float right = 1.0F / (1.0F + e);
  return x < 0 ? e * right : right;
}

// The factor of a normalisation: 1 / sqrt(var + eps), or NaN if the variance is not finite. The
// quotient, 0, would turn values that f32 cannot normalise into finite results. For finite
// variances, the added difference is 0 and changes no bit.
__host__ __device__ inline float rstd_of(float var, float eps) {
  const float v = var + eps;
  return 1.0F / sqrtf(v) + (v - v);
}

inline constexpr float kSqrtHalf = 0.70710678118654752F;
inline constexpr float kDensity = 0.39894228040143268F;  // 1 / sqrt(2 pi)

// The normal distribution's integral up to x. By erfc: 1 + erf would lose the left tail to
// cancellation.
__host__ __device__ inline float normal_part(float x) { return 0.5F * erfcf(-x * kSqrtHalf); }

// Limits x to bounds beyond which all results equal those at the bounds. This avoids 0 * inf; NaN
// stays.
__host__ __device__ inline float bounded(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

__host__ __device__ inline float gelu(float x) {
  const float v = bounded(x, -15.0F, INFINITY);
  return v * normal_part(v);
}

__host__ __device__ inline float gelu_derivative(float x) {
  const float v = bounded(x, -15.0F, 15.0F);
  return normal_part(v) + v * kDensity * expf(-0.5F * v * v);
}

// The tanh form is x * s(v) with the logistic function s.
__host__ __device__ inline float gelu_tanh_gate(float x) {
  constexpr auto kSlope = static_cast<float>(2 * kGeluScale);
  constexpr auto kCubic = static_cast<float>(2 * kGeluScale * kGeluCubic);
  return sigmoid(x * fmaf(x * x, kCubic, kSlope));  // 1 minus that is the value at -x
}

__host__ __device__ inline float gelu_tanh(float x) {
  const float v = bounded(x, -FLT_MAX, INFINITY);
  return v * gelu_tanh_gate(v);
}

__host__ __device__ inline float gelu_tanh_derivative(float x) {
  constexpr auto kSlope = static_cast<float>(2 * kGeluScale);
  constexpr auto kCubic = static_cast<float>(6 * kGeluScale * kGeluCubic);
  const float v = bounded(x, -100.0F, 100.0F);
  const float s = gelu_tanh_gate(v);
  // 1 - s would lose its bits if s is nearly 1.
  return fmaf(v * s * gelu_tanh_gate(-v), fmaf(v * v, kCubic, kSlope), s);
}

__host__ __device__ inline float silu(float x) {
  const float v = bounded(x, -FLT_MAX, INFINITY);
  return v * sigmoid(v);
}

__host__ __device__ inline float silu_derivative(float x) {
  const float v = bounded(x, -200.0F, 200.0F);
  const float s = sigmoid(v);
  return fmaf(v * s, sigmoid(-v), s);  // 1 - s would lose its bits if s is nearly 1
}

// log(p), at least -100: the limit keeps the loss finite for a probability of 0, as in PyTorch.
__host__ __device__ inline float bounded_log(float p) {
  const float log = logf(p);
  return log < -100.0F ? -100.0F : log;
}

// log(1 - p) by log1p: 1 - p would round, and near 1 only the rounding error would be left.
__host__ __device__ inline float bounded_log_of_rest(float p) {
  const float log = log1pf(-p);
  return log < -100.0F ? -100.0F : log;
}

// The loss of a logit x and a target t: max(x, 0) - x t + log(1 + exp(-|x|)).
__host__ __device__ inline float logit_loss(float x, float t) {
  return (x > 0 ? x : 0.0F) - x * t + log1pf(expf(-fabsf(x)));
}

}  // namespace mezzo::kernels::cuda::functions
