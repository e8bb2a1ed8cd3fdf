// A small U-Net, and images to train it with: for the examples of segmentation and of tuning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "mezzo/mezzo.h"

namespace unet {

using namespace mezzo;

inline constexpr std::int64_t kSize = 32;    // height and width of the images
inline constexpr std::int64_t kClasses = 3;  // background, disk, square

struct Scenes {
  Tensor images;  // f32 [n, 1, kSize, kSize]
  Tensor pixels;  // i64 [n, kSize, kSize]: the class of each pixel
};

// A disk and a square on each image; both are brighter than the background, with noise.
inline Scenes make_scenes(std::int64_t n, std::uint64_t seed) {
  Generator random(seed);
  Scenes scenes{randn({n, 1, kSize, kSize}, random), zeros({n, kSize, kSize}, DType::kI64)};
  const Tensor centres = rand({n, 4}, random) * kSize;  // of the disk and of the square
  auto* image = scenes.images.mutable_data<float>();
  auto* label = scenes.pixels.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n * kSize * kSize; ++i) {
    const float* centre = centres.data<float>() + i / (kSize * kSize) * 4;
    const auto y = static_cast<float>(i / kSize % kSize);
    const auto x = static_cast<float>(i % kSize);
    const bool in_disk = std::hypot(y - centre[0], x - centre[1]) < 7;
    const bool in_square = std::max(std::abs(y - centre[2]), std::abs(x - centre[3])) < 5;
    label[i] = in_disk ? 1 : in_square ? 2 : 0;
    image[i] = 0.5F * image[i] + (label[i] > 0 ? 1.5F : 0.0F);
  }
  return scenes;
}

// Two convolutions, each with batch norm and ReLU.
class Block : public nn::Module {
 public:
  Block(std::int64_t in, std::int64_t out)
      : conv1_(in, out, 3, {.padding = 1, .bias = false}),
        bn1_(out),
        conv2_(out, out, 3, {.padding = 1, .bias = false}),
        bn2_(out) {
    add("conv1", conv1_), add("bn1", bn1_), add("conv2", conv2_), add("bn2", bn2_);
  }
  Tensor forward(const Tensor& x) override {
    return bn2_.forward_relu(conv2_(bn1_.forward_relu(conv1_(x))));
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
};

class UNet : public nn::Module {
 public:
  UNet() {
    add("down1", down1_), add("down2", down2_), add("bottom", bottom_);
    add("rise2", rise2_), add("up2", up2_), add("rise1", rise1_), add("up1", up1_);
    add("head", head_);
  }
  // x: [n, 1, h, w], both divisible by 4; the logits: [n, kClasses, h, w].
  Tensor forward(const Tensor& x) override {
    const Tensor fine = down1_(x);                                  // [n, 8, h, w]
    const Tensor middle = down2_(max_pool2d(fine, {.kernel = 2}));  // [n, 16, h / 2, w / 2]
    Tensor y = bottom_(max_pool2d(middle, {.kernel = 2}));          // [n, 32, h / 4, w / 4]
    y = up2_(cat({middle, rise2_(y)}, 1));
    return head_(up1_(cat({fine, rise1_(y)}, 1)));
  }

 private:
  Block down1_{1, 8}, down2_{8, 16}, bottom_{16, 32}, up2_{32, 16}, up1_{16, 8};
  nn::ConvTranspose2d rise2_{32, 16, 2, {.stride = 2}}, rise1_{16, 8, 2, {.stride = 2}};
  nn::Conv2d head_{8, kClasses, 1};
};

}  // namespace unet
