// Tests interpolated images in ONNX.
#include <gmock/gmock.h>

#include "mezzo/nn/nn.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/upsample.h"
#include "tests/unit/interchange/onnx_model.h"

namespace mezzo::interchange {
namespace {

std::string text_of(const onnx::NodeProto& node, const std::string& attribute) {
  for (const onnx::AttributeProto& found : node.attribute()) {
    if (found.name() == attribute) return found.s();
  }
  return {};
}

TEST(OnnxInterpolation, SaysWherePixelsAre) {
  nn::Sequential net;
  net.emplace<nn::Upsample>(Size2d(2, 3), nn::UpsampleOptions{nn::UpsampleMode::kBilinear});
  const onnx::ModelProto model = exported(net, {4, 5, 6});
  const onnx::NodeProto& node = model.graph().node(0);
  EXPECT_EQ(text_of(node, "mode"), "linear");
  EXPECT_EQ(text_of(node, "coordinate_transformation_mode"), "half_pixel");
  Net corners(
      [](const Tensor& x) { return upsample_bilinear2d(x, {.scale = 2, .align_corners = true}); });
  EXPECT_EQ(text_of(exported(corners, {4, 5, 6}).graph().node(0), "coordinate_transformation_mode"),
            "align_corners");
}

// ONNX uses f32 scales, and rounds the resulting size down.
TEST(OnnxInterpolation, GivesEverySize) {
  for (std::int64_t in = 1; in < 16; ++in) {
    for (const std::int64_t out : {1, 3, 7, 10, 13, 31, 62, 117, 255}) {
      Net net(
          [&](const Tensor& x) { return upsample_bilinear2d(x, {.size = Size2d(out, 2 * in)}); });
      onnx::ModelProto model = exported(net, {4, in, in});
      EXPECT_THAT(checked_output(model), testing::ElementsAre(testing::_, "4", std::to_string(out),
                                                              std::to_string(2 * in)));
    }
  }
}

TEST(OnnxInterpolation, LeavesTheBatchAlone) {
  Net rows([](const Tensor& x) {
    return upsample_bilinear2d(reshape(x, {1, 2, x.size(0), 3}), {.size = 5});
  });
  EXPECT_THAT(refusal(rows, {2, 3}), testing::HasSubstr("axis 2 of its input 0"));
  Net columns([](const Tensor& x) {
    return upsample_bilinear2d(reshape(x, {1, 2, 3, x.size(0)}), {.size = 5});
  });
  EXPECT_THAT(refusal(columns, {2, 3}), testing::HasSubstr("axis 3 of its input 0"));
}

}  // namespace
}  // namespace mezzo::interchange
