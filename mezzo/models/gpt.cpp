#include "mezzo/models/gpt.h"

#include <string_view>
#include <utility>

#include "mezzo/models/gpt_blocks.h"
#include "mezzo/models/stream.h"
#include "mezzo/models/token_axis.h"
#include "mezzo/nn/init.h"

namespace mezzo::models {
namespace {

constexpr double kTableDeviation = 0.02;
constexpr std::string_view kPrefix = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";

const GptOptions& checked(const GptOptions& options) {
  check_arg(options.vocabulary > 0 && options.positions > 0 && options.layers > 0, "gpt",
            "vocabulary, positions and layers must be positive, not ", options.vocabulary, ", ",
            options.positions, " and ", options.layers);
  check_arg(options.width > 0 && options.heads > 0 && options.width % options.heads == 0, "gpt",
            "a width of ", options.width, " cannot be divided among ", options.heads,
            " heads. Choose a positive multiple of the heads");
  check_arg(options.dropout >= 0 && options.dropout < 1, "gpt", "dropout must be in [0, 1), not ",
            options.dropout);
  return options;
}

GptOptions sized(std::int64_t layers, std::int64_t heads, std::int64_t width) {
  GptOptions options;
  options.layers = layers;
  options.heads = heads;
  options.width = width;
  return options;
}

// The matrices that Hugging Face's files have as [in, out].
bool is_stored_transposed(std::string_view name) {
  for (const std::string_view end :
       {".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// The masks that older files of Hugging Face have among their weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

GptOptions GptOptions::tiny() {
  GptOptions options = sized(6, 6, 384);
  options.vocabulary = 256;
  return options;
}
GptOptions GptOptions::gpt2() { return {}; }
GptOptions GptOptions::medium() { return sized(24, 16, 1024); }
GptOptions GptOptions::large() { return sized(36, 20, 1280); }
GptOptions GptOptions::xl() { return sized(48, 25, 1600); }

Gpt::Gpt(GptOptions options)
    : options_(checked(options)),
      wte_(options.vocabulary, options.width),
      wpe_(options.positions, options.width),
      ln_f_(options.width, {.eps = options.eps}),
      lm_head_(wte_.weight()) {
  nn::init::normal(wte_.weight(), 0, kTableDeviation);
  nn::init::normal(wpe_.weight(), 0, kTableDeviation);
  for (std::int64_t i = 0; i < options.layers; ++i) blocks_.emplace<GptBlock>(options);
  add("wte", wte_);
  add("wpe", wpe_);
  add("h", blocks_);
  add("ln_f", ln_f_);
  add("lm_head", lm_head_);
}

Tensor Gpt::forward(const Tensor& tokens) {
  check_token_shape(tokens, "gpt");
  Tensor x = drop_stream(wpe_(wte_(tokens)), options_.dropout, is_training());
  for (const auto& block : blocks_) x = (*block)(x);
  return lm_head_(ln_f_(x));
}

Tensor Gpt::next_logits(const Tensor& tokens, KeyValueCache& cache,
                        std::span<const std::int64_t> counts) {
  check_next_tokens(tokens, "gpt");
  cache.expect(tokens, counts);
  return run(tokens, [&](const Tensor& input) {
    const Tensor read = wte_(input);
    const Tensor& positions = cache.positions();
    const Tensor placed =
        positions.defined() ? wpe_.at(positions, read) : wpe_.from(cache.length(), read);
    Tensor x = drop_stream(placed, options_.dropout, is_training());
    std::size_t layer = 0;
    for (const auto& block : blocks_) {
      x = static_cast<GptBlock&>(*block).after(x, cache.layer(layer++));
    }
    return lm_head_(ln_f_(last_token(x, cache)));
  });
}

// A matrix [width, 3 * width] tells the layout of a file, also where others are square.
std::vector<NamedTensor> Gpt::from_file(std::vector<NamedTensor> tensors) const {
  remove_prefix(tensors, kPrefix);
  const NamedTensor* first = find_tensor(tensors, "h.0.attn.c_attn.weight");
  if (first == nullptr || !first->tensor.defined()) return tensors;
  if (first->tensor.shape() != Shape{options_.width, 3 * options_.width}) return tensors;
  std::erase_if(tensors, [](const NamedTensor& entry) { return is_mask(entry.name); });
  for (NamedTensor& entry : tensors) {
    if (is_stored_transposed(entry.name)) entry.tensor = transposed_copy(entry.tensor);
  }
  return tensors;
}

std::vector<NamedTensor> Gpt::to_file() const {
  std::vector<NamedTensor> tensors = state();
  std::erase_if(tensors, [](const NamedTensor& entry) { return entry.name == kHead; });
  for (NamedTensor& entry : tensors) {
    if (is_stored_transposed(entry.name)) entry.tensor = transposed_copy(entry.tensor);
  }
  return tensors;
}

}  // namespace mezzo::models
