#include "mezzo/models/vit.h"

#include <cmath>

#include "mezzo/models/vit_encoder.h"
#include "mezzo/nn/init.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::models {
namespace {

std::int64_t patches_per_side(const ModelConfig& config, const VitOptions& options) {
  check_arg(options.patch > 0 && options.layers > 0 && options.width > 0 && options.hidden > 0,
            "vit", "patch, layers, width and hidden must be positive, not ", options.patch, ", ",
            options.layers, ", ", options.width, " and ", options.hidden);
  check_arg(config.image_size % options.patch == 0, "vit", "images of ", config.image_size,
            " pixels cannot be divided into patches of ", options.patch,
            ". Choose a multiple with --image-size");
  return config.image_size / options.patch;
}

std::int64_t vit_tokens(const ModelConfig& config, const VitOptions& options) {
  const std::int64_t side = patches_per_side(config, options);
  return side * side + 1;
}

}  // namespace

class Vit::Heads : public nn::Module {
 public:
  Heads(std::int64_t width, std::int64_t classes) : head_(width, classes) {
    nn::init::constant(head_.weight(), 0);
    nn::init::constant(head_.bias(), 0);
    add("head", head_);
  }

  Tensor forward(const Tensor& x) override { return head_(x); }

 private:
  nn::Linear head_;
};

VitOptions VitOptions::base() { return {}; }

VitOptions VitOptions::small() {
  VitOptions options;
  options.heads = 6;
  options.width = 384;
  options.hidden = 1536;
  return options;
}

VitOptions VitOptions::tiny() {
  VitOptions options;
  options.heads = 3;
  options.width = 192;
  options.hidden = 768;
  return options;
}

Vit::Vit(const ModelConfig& config, VitOptions options)
    : image_{config.in_channels, config.image_size, config.image_size},
      class_token_(zeros({1, 1, options.width})),
      conv_proj_(config.in_channels, options.width, options.patch, {.stride = options.patch}),
      encoder_(std::make_unique<VitEncoder>(vit_tokens(config, options), options)),
      heads_(std::make_unique<Heads>(options.width, config.num_classes)) {
  const double fan_in = static_cast<double>(nn::init::fans_of(conv_proj_.weight()).in);
  nn::init::normal(conv_proj_.weight(), 0, std::sqrt(1 / fan_in));
  nn::init::constant(conv_proj_.bias(), 0);
  add_parameter("class_token", class_token_);
  add("conv_proj", conv_proj_);
  add("encoder", *encoder_);
  add("heads", *heads_);
}

Vit::~Vit() = default;

Tensor Vit::forward(const Tensor& x) {
  check_arg(
      x.rank() == 4 && x.size(1) == image_[0] && x.size(2) == image_[1] && x.size(3) == image_[2],
      "vit", "images must be [n, ", image_[0], ", ", image_[1], ", ", image_[2], "], the shape is ",
      x.shape(), ". Resize them, or make the network for their size");
  const std::int64_t n = x.size(0);
  const std::int64_t width = class_token_.size(2);
  // [n, width, side, side], one token for each patch.
  const Tensor patches = permute(reshape(conv_proj_(x), {n, width, -1}), {0, 2, 1});
  // A token of zeros for each image, to which the class token is broadcast: expand() would name the
  // size of the batch, which is open in ONNX.
  const Tensor none = slice(patches.detach(), 1, 0, 1) * 0;
  const Tensor tokens = cat({none + class_token_, patches}, 1);
  const Tensor encoded = (*encoder_)(tokens);
  return (*heads_)(reshape(slice(encoded, 1, 0, 1), {n, width}));
}

}  // namespace mezzo::models
