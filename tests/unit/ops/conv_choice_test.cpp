// Which kernel computes a convolution on which machine: conv_choice.txt, whose changes a reviewer
// reads.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/ops/dispatcher/registry.h"

namespace mezzo {
namespace {

using kernels::conv::Machine;
using kernels::conv::Pass;
using kernels::conv::Problem;

struct NamedMachine {
  const char* name;
  Machine machine;
};

constexpr NamedMachine kMachines[] = {
    {"baseline", {}},
    {"AVX2", {.lanes = 8}},
    {"AVX-512", {.lanes = 16}},
    {"Zen 4", {.lanes = 16, .has_fast_dot = true}},
    {"AMX", {.lanes = 16, .has_tiles = true}},
};

struct Layer {
  const char* name;
  Shape x;  // [n, c, h, w]
  std::int64_t outputs;
  Size2d kernel;
  Conv2dAttrs attrs{};
};

Conv2dAttrs with(std::int64_t stride, std::int64_t padding, std::int64_t groups = 1,
                 std::int64_t dilation = 1) {
  return {.stride = stride, .padding = Sides(padding), .dilation = dilation, .groups = groups};
}

// Layers of networks that people train, and shapes at the edges of what methods take.
std::vector<Layer> layers() {
  return {
      {"ResNet-50 stem", {16, 3, 224, 224}, 64, 7, with(2, 3)},
      {"ResNet-50 1x1, reduce", {16, 256, 56, 56}, 64, 1},
      {"ResNet-50 1x1, expand", {16, 64, 56, 56}, 256, 1},
      {"ResNet-50 3x3", {16, 64, 56, 56}, 64, 3, with(1, 1)},
      {"ResNet-50 3x3 at a stride", {16, 128, 56, 56}, 128, 3, with(2, 1)},
      {"ResNet-50 1x1 at a stride", {16, 256, 56, 56}, 512, 1, with(2, 0)},
      {"ResNet-50 3x3, last", {16, 512, 7, 7}, 512, 3, with(1, 1)},
      {"ResNet-18 3x3, 2x2 images", {128, 512, 2, 2}, 512, 3, with(1, 1)},
      {"ResNet-20 first", {128, 3, 32, 32}, 16, 3, with(1, 1)},
      {"ResNet-20 3x3", {128, 16, 32, 32}, 16, 3, with(1, 1)},
      {"ResNet-20 3x3, last", {128, 64, 8, 8}, 64, 3, with(1, 1)},
      {"LeNet-5 first", {64, 1, 28, 28}, 6, 5, with(1, 2)},
      {"LeNet-5 second", {64, 6, 14, 14}, 16, 5},
      {"ViT patches", {32, 3, 224, 224}, 192, 16, with(16, 0)},
      {"ViT patches of 4", {128, 3, 32, 32}, 64, 4, with(4, 0)},
      {"U-Net 3x3", {4, 64, 128, 128}, 64, 3, with(1, 1)},
      {"U-Net mask", {4, 64, 128, 128}, 2, 1},
      {"MobileNet depthwise", {32, 64, 56, 56}, 64, 3, with(1, 1, 64)},
      {"two groups", {32, 64, 28, 28}, 64, 3, with(1, 1, 2)},
      {"dilated", {8, 64, 32, 32}, 64, 3, with(1, 2, 1, 2)},
      {"one image, few pixels", {1, 256, 8, 8}, 256, 3, with(1, 1)},
      {"odd channels", {16, 30, 20, 20}, 50, 3, with(1, 1)},
      {"a row", {32, 40, 1, 100}, 40, {1, 9}, {.padding = {.left = 4, .right = 4}}},
  };
}

Problem problem_of(const Layer& layer, Pass pass, DType dtype) {
  const auto window = layer.attrs.window(layer.kernel);
  const auto size = [](std::int64_t in, std::int64_t span, std::int64_t before, std::int64_t after,
                       std::int64_t stride) { return (in + before + after - span) / stride + 1; };
  const Sides& p = layer.attrs.padding;
  const Size2d span = window.span();
  const std::int64_t h = size(layer.x[2], span.h, p.top, p.bottom, layer.attrs.stride.h);
  const std::int64_t w = size(layer.x[3], span.w, p.left, p.right, layer.attrs.stride.w);
  return {
      .pass = pass,
      .x = layer.x,
      .weight = {layer.outputs, layer.x[1] / layer.attrs.groups, layer.kernel.h, layer.kernel.w},
      .y = {layer.x[0], layer.outputs, h, w},
      .attrs = layer.attrs,
      .dtype = dtype,
      .result = dtype};
}

const char* name_of(Pass pass) {
  if (pass == Pass::kForward) return "conv2d";
  return pass == Pass::kGradInput ? "conv2d_grad_input" : "conv2d_grad_weight";
}

const KernelList& kernels_of(Pass pass) {
  for (const RegisteredOp& entry : registered_ops()) {
    if (std::string_view(entry.op->name) == name_of(pass)) return *entry.kernels.cpu;
  }
  std::abort();
}

std::string table() {
  std::ostringstream text;
  text << "# The kernel that computes a convolution, by layer, pass, dtype and machine. Written by "
          "conv_choice_test, with\n"
          "# MEZZO_WRITE_CHOICES=FILE in the environment.\n";
  constexpr std::pair<Pass, const char*> kPasses[] = {{Pass::kForward, "forward"},
                                                      {Pass::kGradInput, "by input"},
                                                      {Pass::kGradWeight, "by weight"}};
  for (const Layer& layer : layers()) {
    text << '\n' << layer.name << ": " << concat(layer.x) << '\n';
    for (const auto& [pass, pass_name] : kPasses) {
      for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
        text << "  " << pass_name << ", " << mezzo::name_of(dtype) << ":";
        for (const NamedMachine& m : kMachines) {
          const char* chosen =
              kernels::conv::choose(kernels_of(pass), problem_of(layer, pass, dtype), m.machine);
          text << ' ' << m.name << ' ' << chosen << (&m == std::end(kMachines) - 1 ? "" : ",");
        }
        text << '\n';
      }
    }
  }
  return text.str();
}

TEST(ConvChoice, IsTheOneInTheTable) {
  const std::string chosen = table();
  if (const char* path = std::getenv("MEZZO_WRITE_CHOICES")) std::ofstream(path) << chosen;
  std::ifstream file(MEZZO_CONV_CHOICES);
  std::stringstream expected;
  expected << file.rdbuf();
  std::istringstream lines(chosen);
  std::string line;
  std::string wanted;
  std::string heading;
  while (std::getline(lines, line)) {
    if (!line.starts_with(' ')) heading = line;
    ASSERT_TRUE(std::getline(expected, wanted)) << heading << '\n' << line;
    EXPECT_EQ(line, wanted) << heading;
  }
  EXPECT_FALSE(std::getline(expected, wanted)) << wanted;
}

// What is chosen here is what runs: the machine that the table is asked about is the one at hand.
TEST(ConvChoice, EveryKernelOfTheListsHasItsMethod) {
  for (const Pass pass : {Pass::kForward, Pass::kGradInput, Pass::kGradWeight}) {
    const auto kernels = kernels_of(pass).entries();
    ASSERT_GE(kernels.size(), 2U);
    EXPECT_STREQ(kernels.back().name, "cpu_onednn_f32") << "which takes what the others leave";
  }
}

}  // namespace
}  // namespace mezzo
