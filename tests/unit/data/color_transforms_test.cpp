// Compares colour transforms with torchvision's formulas, computed here in double for values from 0
// to 1.
#include "mezzo/data/color_transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/images.h"
#include "tests/unit/data/transformed.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

using Numbers = std::vector<double>;
using Step = std::function<void(Numbers&)>;

// A transform rounds each value once, to the nearest byte, after some ten f32 operations on values
// of at most 1.
constexpr double kTolerance =
    0.5 + 255 * 16 * static_cast<double>(std::numeric_limits<float>::epsilon());

Numbers numbers_of(const Image& image) {
  Numbers numbers;
  for (const std::uint8_t byte : image.pixels) numbers.push_back(byte / 255.0);
  return numbers;
}

double grey(const double* pixel) { return 0.2989 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]; }

double cut(double number) { return std::clamp(number, 0.0, 1.0); }

Step brightness(double factor) {
  return [factor](Numbers& x) {
    for (double& number : x) number = cut(factor * number);
  };
}

Step contrast(double factor, std::size_t channels = 3) {
  return [=](Numbers& x) {
    double mean = 0;
    for (std::size_t i = 0; i < x.size(); i += channels) mean += channels == 1 ? x[i] : grey(&x[i]);
    mean /= static_cast<double>(x.size() / channels);
    for (double& number : x) number = cut(factor * number + (1 - factor) * mean);
  };
}

Step saturation(double factor) {
  return [factor](Numbers& x) {
    for (std::size_t i = 0; i < x.size(); i += 3) {
      const double of_pixel = grey(&x[i]);
      for (std::size_t c = 0; c < 3; ++c)
        x[i + c] = cut(factor * x[i + c] + (1 - factor) * of_pixel);
    }
  };
}

// torchvision's _rgb2hsv and _hsv2rgb, with their table of six sectors.
void turn(double* pixel, double shift) {
  const double most = std::max({pixel[0], pixel[1], pixel[2]});
  const double least = std::min({pixel[0], pixel[1], pixel[2]});
  const double range = most == least ? 1 : most - least;
  const double s = most == 0 ? 0 : (most - least) / most;
  const double rc = (most - pixel[0]) / range;
  const double gc = (most - pixel[1]) / range;
  const double bc = (most - pixel[2]) / range;
  double h = 0;
  if (most == pixel[0]) {
    h = bc - gc;
  } else if (most == pixel[1]) {
    h = 2 + rc - bc;
  } else {
    h = 4 + gc - rc;
  }
  h = std::fmod(h / 6 + 1, 1) + shift;
  h -= std::floor(h);
  const double sector = std::floor(h * 6);
  const double f = h * 6 - sector;
  const double p = cut(most * (1 - s));
  const double q = cut(most * (1 - s * f));
  const double t = cut(most * (1 - s * (1 - f)));
  const double v = most;
  const std::array<std::array<double, 3>, 6> table{
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::ranges::copy(table[static_cast<std::size_t>(sector) % 6], pixel);
}

Step hue(double shift) {
  return [shift](Numbers& x) {
    for (std::size_t i = 0; i < x.size(); i += 3) turn(&x[i], shift);
  };
}

double distance(const Image& image, const Numbers& numbers) {
  double most = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    most = std::max(most, std::abs(image.pixels[i] - 255 * numbers[i]));
  }
  return most;
}

// The draws of ColorJitter: the order, then a number for each step in that order.
struct Drawn {
  std::array<int, 4> order{0, 1, 2, 3};
  std::array<double, 4> at{};  // from 0 to 1, by step
};

Drawn draws_of(std::uint64_t seed, std::array<bool, 4> is_on) {
  Generator random(seed);
  Drawn drawn;
  for (std::size_t left = 4; left > 1; --left) {
    std::swap(drawn.order[left - 1], drawn.order[random.below(left)]);
  }
  for (const int step : drawn.order) {
    const auto i = static_cast<std::size_t>(step);
    if (is_on[i]) drawn.at[i] = static_cast<double>(random.uniform());
  }
  return drawn;
}

TEST(ColorJitter, EachStepIsItsFormula) {
  const Image in = random_image({3, 6, 7}, 1);
  const auto check = [&](const ColorJitter& jitter, int step, double low, double high,
                         const std::function<Step(double)>& reference) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      std::array<bool, 4> is_on{};
      is_on[static_cast<std::size_t>(step)] = true;
      const double at = draws_of(seed, is_on).at[static_cast<std::size_t>(step)];
      Numbers expected = numbers_of(in);
      reference(low + (high - low) * at)(expected);
      EXPECT_LE(distance(transformed(jitter, in, seed), expected), kTolerance) << step << seed;
    }
  };
  check({.brightness = 0.4}, 0, 0.6, 1.4, brightness);
  check({.brightness = 3}, 0, 0, 4, brightness);  // never below 0
  check({.contrast = 0.9}, 1, 0.1, 1.9, [](double factor) { return contrast(factor); });
  check({.saturation = 0.7}, 2, 0.3, 1.7, saturation);
  check({.hue = 0.5}, 3, -0.5, 0.5, hue);
}

TEST(ColorJitter, StepsComeInARandomOrder) {
  const Image in = random_image({3, 5, 5}, 2);
  const ColorJitter jitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  std::set<std::array<int, 4>> orders;
  // There are 24 orders and 300 draws: one is missed with a probability of 24 * (23 / 24)^300 =
  // 7e-5. The seeds are fixed.
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Drawn drawn = draws_of(seed, {true, true, true, true});
    orders.insert(drawn.order);
    const std::array<Step, 4> steps{
        brightness(0.6 + 0.8 * drawn.at[0]), contrast(0.6 + 0.8 * drawn.at[1]),
        saturation(0.6 + 0.8 * drawn.at[2]), hue(-0.1 + 0.2 * drawn.at[3])};
    Numbers expected = numbers_of(in);
    for (const int step : drawn.order) steps[static_cast<std::size_t>(step)](expected);
    EXPECT_LE(distance(transformed(jitter, in, seed), expected), kTolerance) << seed;
  }
  EXPECT_EQ(orders.size(), 24U);
}

TEST(ColorJitter, GreyImagesHaveBrightnessAndContrastAlone) {
  const Image in = random_image({1, 6, 7}, 3);
  EXPECT_EQ(transformed(ColorJitter{.saturation = 1, .hue = 0.5}, in, 4).pixels, in.pixels);
  const double at = draws_of(5, {false, true, false, false}).at[1];
  Numbers expected = numbers_of(in);
  contrast(0.2 + 1.6 * at, 1)(expected);
  EXPECT_LE(distance(transformed(ColorJitter{.contrast = 0.8}, in, 5), expected), kTolerance);
}

TEST(ColorJitter, OfNothingIsTheImage) {
  const Image in = random_image({3, 30, 30}, 4);
  EXPECT_EQ(transformed(ColorJitter{}, in, 1).pixels, in.pixels);
}

TEST(RandomGrayscale, IsGreyOrTheImage) {
  const Image in = random_image({3, 6, 7}, 5);
  Numbers expected = numbers_of(in);
  for (std::size_t i = 0; i < expected.size(); i += 3) {
    std::fill_n(&expected[i], 3, grey(&expected[i]));
  }
  EXPECT_LE(distance(transformed(RandomGrayscale{1}, in, 1), expected), kTolerance);
  EXPECT_EQ(transformed(RandomGrayscale{0}, in, 1).pixels, in.pixels);
  int greys = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    greys += transformed(RandomGrayscale{0.1}, in, seed).pixels != in.pixels ? 1 : 0;
  }
  EXPECT_NEAR(greys, 100, 4 * std::sqrt(1000 * 0.1 * 0.9));  // four deviations
}

TEST(ColorTransforms, RefuseParametersThatMakeNoSense) {
  const Shape colour{3, 4, 4};
  EXPECT_EQ(refusal(ColorJitter{.contrast = -1}, colour),
            "[color_jitter] brightness, contrast and saturation must be at least 0 and finite: -1");
  EXPECT_THAT(refusal(ColorJitter{.brightness = INFINITY}, colour), HasSubstr("finite: inf"));
  EXPECT_THAT(refusal(ColorJitter{.hue = 0.6}, colour), HasSubstr("from 0 to 0.5: 0.6"));
  EXPECT_THAT(refusal(ColorJitter{.hue = NAN}, colour), HasSubstr("from 0 to 0.5: nan"));
  EXPECT_THAT(refusal(ColorJitter{}, {4, 4, 4}), HasSubstr("1 channel, grey, or 3, colour: 4"));
  EXPECT_THAT(refusal(RandomGrayscale{2}, colour), HasSubstr("from 0 to 1: 2"));
  EXPECT_THAT(refusal(RandomGrayscale{}, {1, 4, 4}), HasSubstr("of 3 channels: 1"));
}

}  // namespace
}  // namespace mezzo::data
