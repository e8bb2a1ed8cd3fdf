// How far the gradients of a step are from those of a more exact one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo::tune {

// What a forward and a backward pass computed.
struct StepGradients {
  double loss = 0;
  std::vector<NamedTensor> tensors{};  // not scaled, on the host, in row-major order, f32 or f64
};

// The gradient of one parameter, beside a more exact one.
struct ParameterError {
  std::string name{};
  double error = 0;       // |gradient - exact| / |exact|, as 2-norms; 1 if it is lost entirely
  double lost = 0;        // the share of the elements other than 0 that have become 0
  double not_finite = 0;  // the share of the elements that are infinite or NaN
};

// Of all parameters, and of several batches.
struct GradientError {
  // The root mean square of the parameters' errors, each of which counts the same: by the norm of
  // all gradients together, a layer of small gradients could be lost and nobody would see it.
  double total = 0;
  double loss = 0;    // |loss - exact| / |exact|
  double cosine = 1;  // of all gradients as one vector
  double lost = 0;    // the shares of all elements
  double not_finite = 0;
  double most_lost = 0;  // the share of a parameter's elements, of the one that lost most
  ParameterError worst{};
  double scale = 1;  // of the loss, as small as it had to be for finite gradients

  bool is_finite() const;
};

// The gradients are divided by `scale` first. Parameters whose index is set in `left_out` do not
// count. Throws ArgumentError unless both have gradients of the same parameters.
GradientError error_of(const StepGradients& exact, std::span<const NamedTensor> gradients,
                       double loss, double scale, const std::vector<bool>& left_out);

// The error over several batches: root mean squares, means, and the worst.
GradientError mean_of(std::span<const GradientError> errors);

// An error in percent: `0.8 %`, `infinite`.
std::string error_text(double error);

// A copy on the host in row-major order, divided by the scale: f64 stays f64, all else becomes f32.
Tensor plain_copy(const Tensor& gradient, double scale);

}  // namespace mezzo::tune
