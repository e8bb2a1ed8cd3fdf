// Initial values of parameters. All functions write a floating tensor in place; random ones draw
// f32 numbers in row-major order, so a seed gives the same values in every dtype and memory format.
// All throw ArgumentError for other tensors, and those that need fans also for a rank under 2.
#pragma once

#include <cstdint>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"

namespace mezzo::nn::init {

// The function that follows the layer: its gain keeps the variance of the values that pass through.
enum class Nonlinearity : std::uint8_t { kLinear, kSigmoid, kTanh, kRelu, kLeakyRelu };

// sqrt(1 / E[f'^2]) or its customary value: 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)). `slope` is
// that of leaky ReLU for negative x. The table is PyTorch's calculate_gain.
double gain(Nonlinearity nonlinearity, double slope = 0.01);

// The number of terms summed for one output (fan_in), and the number of outputs that one input
// reaches (fan_out).
struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
// The fans of a weight [out, in, ...]: the trailing sizes, those of the kernel, multiply both.
// Throws ArgumentError if the rank is under 2.
Fans fans_of(const Tensor& weight);

void constant(const Tensor& tensor, double value);
// Uniform in [low, high). Throws ArgumentError if low is above high.
void uniform(const Tensor& tensor, double low, double high,
             Generator& generator = default_generator());
// normal() and truncated_normal() throw ArgumentError for a negative deviation.
void normal(const Tensor& tensor, double mean, double deviation,
            Generator& generator = default_generator());
// Normal distribution in which values more than two deviations from the mean are drawn again. The
// deviation of the result is about 0.88 times `deviation`.
void truncated_normal(const Tensor& tensor, double mean, double deviation,
                      Generator& generator = default_generator());

// Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural
// networks", eq. 16: variance gain^2 * 2 / (fan_in + fan_out).
void xavier_uniform(const Tensor& weight, double gain = 1,
                    Generator& generator = default_generator());
void xavier_normal(const Tensor& weight, double gain = 1,
                   Generator& generator = default_generator());

enum class FanMode : std::uint8_t { kFanIn, kFanOut };

struct KaimingOptions {
  FanMode mode = FanMode::kFanIn;
  Nonlinearity nonlinearity = Nonlinearity::kLeakyRelu;
  double slope = 0;  // for kLeakyRelu; 0 is ReLU
};

// He, Zhang, Ren, Sun 2015, "Delving deep into rectifiers", eq. 10 and 14: variance gain^2 / fan.
void kaiming_uniform(const Tensor& weight, KaimingOptions options = {},
                     Generator& generator = default_generator());
void kaiming_normal(const Tensor& weight, KaimingOptions options = {},
                    Generator& generator = default_generator());

// The default of Linear, Conv2d and ConvTranspose2d, which is PyTorch's: kaiming_uniform with slope
// sqrt(5), that is, uniform in +-1 / sqrt(fan_in). The bias has the same bound, with the fan_in of
// its weight.
void default_weight(const Tensor& weight, Generator& generator = default_generator());
void default_bias(const Tensor& bias, const Tensor& weight,
                  Generator& generator = default_generator());

}  // namespace mezzo::nn::init
