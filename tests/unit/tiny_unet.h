// A network with layers that classifiers do not have.
#pragma once

#include "mezzo/nn/conv.h"
#include "mezzo/nn/group_norm.h"
#include "mezzo/nn/upsample.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::test {

// Logits for the classes of every pixel, for images of an even size. It halves the size and
// restores it, concatenated with the earlier activations, following Ronneberger, Fischer and Brox,
// "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015.
// tests/golden/networks.py has the same network.
class TinyUnet : public nn::Module {
 public:
  TinyUnet(std::int64_t channels, std::int64_t classes, nn::UpsampleOptions upsample = {})
      : first_(channels, 8, 3, {.padding = 1}), enlarge_(2, upsample), classes_(8, classes, 1) {
    add("first", first_);
    add("first_norm", first_norm_);
    add("down", down_);
    add("down_norm", down_norm_);
    add("up", up_);
    add("joined", joined_);
    add("joined_norm", joined_norm_);
    add("classes", classes_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor wide = relu(first_norm_(first_(x)));
    const Tensor deep = relu(down_norm_(down_(wide)));
    const Tensor back = cat({relu(up_(deep)), enlarge_(deep), wide}, 1);
    return classes_(relu(joined_norm_(joined_(back))));
  }

 private:
  nn::Conv2d first_;
  nn::GroupNorm first_norm_{2, 8};
  nn::Conv2d down_{8, 16, 3, {.stride = 2, .padding = 1}};
  nn::InstanceNorm2d down_norm_{16, {.affine = true}};
  nn::ConvTranspose2d up_{16, 8, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}};
  nn::Upsample enlarge_;
  nn::Conv2d joined_{32, 8, 3, {.padding = 1}};
  nn::GroupNorm joined_norm_{4, 8};
  nn::Conv2d classes_;
};

}  // namespace mezzo::test
