// Shared by the drawings of histograms by binary exponent: the axis, and what f16 does to a binade.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "mezzo/amp/gradient_histogram.h"

namespace mezzo::report {

// The effect of f16 on the values of a binade; each fate has a class that paints it.
enum class Fate : unsigned char { kLost, kSubnormal, kKept, kInfinite };
inline constexpr std::array kFates{Fate::kLost, Fate::kSubnormal, Fate::kKept, Fate::kInfinite};
const char* class_of(Fate fate);
Fate fate_in_f16(int exponent);

// The first exponent of each fate after kLost.
inline constexpr int kF16Subnormal = -25;
inline constexpr int kF16Normal = -14;
inline constexpr int kF16Infinite = 16;

// Maps the exponents [low, high) to the positions [left, right].
struct ExponentScale {
  int low = 0;
  int high = 1;
  double left = 0;
  double right = 1;

  double cell() const { return (right - left) / (high - low); }
  double place(int exponent) const;
};

// A scale wide enough for all values and for the limits of f16.
ExponentScale scale_for(std::span<const amp::GradientHistogram> histograms, double left,
                        double right);

// The range of a type as exponents: where subnormal numbers begin, normal ones, and infinity.
struct TypeRange {
  std::string name{};
  std::array<int, 3> ends{};
};
// Those of bf16 and f16, and of f16 if the values were multiplied by 2^shift.
std::vector<TypeRange> type_ranges(int shift);

// The limits of f16 within the scale, without a shift (0) or with one.
std::vector<int> limits_within(const ExponentScale& scale, int shift);

// The exponents to write beside the axis.
std::vector<int> exponents_to_write(const ExponentScale& scale);
// With a true minus sign: `−25`.
std::string exponent_text(int exponent);

// The share of the values in each binade of the scale.
std::vector<double> parts_of(const amp::GradientHistogram& histogram, const ExponentScale& scale);

// A share from 0 to 1 in few characters; 0 differs from what is merely small.
std::string short_part(double part);

// The share that would become zero or infinite.
double outside_f16(const amp::GradientHistogram& histogram, double scale);

}  // namespace mezzo::report
