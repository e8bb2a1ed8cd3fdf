// Tests a segmentation network that is trained in 16 bits, eagerly and captured.
#include "mezzo/amp/autocast.h"
#include "mezzo/amp/plan.h"
#include "tests/unit/graph/twins.h"
#include "tests/unit/tiny_unet.h"

namespace mezzo::graph {
namespace {

using test::TinyUnet;

// A pixel's class depends on its value: below -0.5, above 0.5, or between.
Batch pixels(std::uint64_t seed) {
  Generator generator(seed);
  const Tensor images = randn({4, 1, 12, 10}, generator);
  std::vector<std::int64_t> labels;
  for (const float pixel : images.to_vector<float>()) {
    labels.push_back(pixel < -0.5F ? 0 : pixel > 0.5F ? 2 : 1);
  }
  return {images, from_values(labels, {4, 12, 10})};
}

constexpr nn::UpsampleOptions kBothModes[] = {{}, {.mode = nn::UpsampleMode::kBilinear}};

TEST(Unet, LearnsIn16BitsWithTheSameBitsCaptured) {
  for (const nn::UpsampleOptions& mode : kBothModes) {
    for (const DType dtype : {DType::kBf16, DType::kF16}) {
      Twins<TinyUnet> twins([&] { return std::make_unique<TinyUnet>(1, 3, mode); }, kSgd,
                            {.level = "O2", .dtype = dtype},
                            amp::LossScaleOptions{.init_scale = 1024});
      const double first = twins.step(pixels(0)).loss;
      double last = first;
      for (std::uint64_t i = 1; i < 25; ++i) last = twins.step(pixels(i)).loss;
      EXPECT_LT(last, first / 2) << mezzo::name_of(dtype);
      twins.expect_same_state();
    }
  }
}

// The image and the five weights are cast, and nothing between the layers.
TEST(Unet, IsIn16BitsFromLayerToLayer) {
  for (const nn::UpsampleOptions& mode : kBothModes) {
    TinyUnet net(1, 3, mode);
    const amp::Plan plan = amp::make_plan([&] {
      const amp::Autocast region(DType::kBf16);
      net(zeros({1, 1, 12, 10}));
    });
    for (const amp::PlannedOp& op : plan.ops) EXPECT_EQ(op.dtype, DType::kBf16) << op.op;
    EXPECT_EQ(plan.casts, 6);
  }
}

}  // namespace
}  // namespace mezzo::graph
