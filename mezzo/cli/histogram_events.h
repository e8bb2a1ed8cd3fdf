// Histograms of exponents as events of the log and of TensorBoard.
#pragma once

#include <string>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/io/tensorboard.h"
#include "mezzo/numbers/activation_statistics.h"

namespace mezzo::cli {

// Writes a `histogram` event for each call and each weight, with the sums over the run.
void write_histograms(JsonLines& json, const numbers::ActivationStatistics& statistics);
// Likewise for the gradients of each parameter and, if they were counted, of each module's output.
void write_histograms(JsonLines& json, const amp::GradientStatistics& statistics);

// The exponents as buckets of width 1 from the smallest to the largest: what has the exponent e
// lies between e and e + 1. Zeros, infinities and NaN are left out. No buckets if nothing is left.
io::Histogram exponent_buckets(const ExponentCounts& counts);

// The tag of a call in event files: `activations/layer1.0.conv1/conv2d`.
std::string tag_of(const CallId& id);

}  // namespace mezzo::cli
