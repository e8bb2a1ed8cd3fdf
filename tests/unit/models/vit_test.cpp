// Tests vision transformers: names, counts, initial values and errors.
// tests/golden/transformers_test.cpp compares their numbers with torchvision's.
#include "mezzo/models/vit.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "mezzo/core/random.h"
#include "tests/unit/message_of.h"

namespace mezzo::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

VitOptions small_vit() { return {.patch = 8, .layers = 1, .heads = 2, .width = 16, .hidden = 24}; }

TEST(Vit, HasTorchvisionsNames) {
  const Vit net({.in_channels = 3, .num_classes = 5, .image_size = 16}, small_vit());
  std::vector<std::string> names;
  for (const NamedTensor& entry : net.state()) names.push_back(entry.name);
  const std::string block = "encoder.layers.encoder_layer_0.";
  EXPECT_THAT(
      names,
      ElementsAre("class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding",
                  block + "ln_1.weight", block + "ln_1.bias",
                  block + "self_attention.in_proj_weight", block + "self_attention.in_proj_bias",
                  block + "self_attention.out_proj.weight", block + "self_attention.out_proj.bias",
                  block + "ln_2.weight", block + "ln_2.bias", block + "mlp.0.weight",
                  block + "mlp.0.bias", block + "mlp.3.weight", block + "mlp.3.bias",
                  "encoder.ln.weight", "encoder.ln.bias", "heads.head.weight", "heads.head.bias"));
}

// These are the counts of DeiT.
TEST(Vit, HasTheKnownCounts) {
  const ModelConfig usual = usual_config("vit_s_16");
  EXPECT_EQ(create("vit_s_16", usual)->parameter_count(), 22050664);
  EXPECT_EQ(create("vit_ti_16", usual)->parameter_count(), 5717416);
}

// The last layer begins as 0, so all classes are alike.
TEST(Vit, BeginsWithoutAnOpinion) {
  manual_seed(1);
  Vit net({.in_channels = 2, .num_classes = 5, .image_size = 16}, small_vit());
  EXPECT_THAT(net(randn({3, 2, 16, 16})).to_vector<float>(), testing::Each(0));
}

TEST(Vit, ErrorsSayWhatIsPossible) {
  EXPECT_THAT(message_of([] { create("vit_ti_16", {.image_size = 28}); }),
              HasSubstr("images of 28 pixels cannot be divided into patches of 16"));
  Vit net({.in_channels = 2, .num_classes = 5, .image_size = 16}, small_vit());
  EXPECT_THAT(message_of([&] { net(randn({3, 2, 24, 24})); }), HasSubstr("[3, 2, 24, 24]"));
}

}  // namespace
}  // namespace mezzo::models
