#include "mezzo/models/llama.h"

#include <memory>
#include <string_view>
#include <utility>

#include "mezzo/models/llama_blocks.h"
#include "mezzo/models/tied_head.h"
#include "mezzo/models/token_axis.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/init.h"

namespace mezzo::models {
namespace {

constexpr std::string_view kBodyPrefix = "model.";
constexpr std::string_view kLlamaHead = "lm_head.weight";

const LlamaOptions& checked_llama(const LlamaOptions& options) {
  check_arg(options.vocabulary > 0 && options.layers > 0 && options.hidden > 0, "llama",
            "vocabulary, layers and hidden must be positive, not ", options.vocabulary, ", ",
            options.layers, " and ", options.hidden);
  check_arg(options.width > 0 && options.heads > 0 && options.width % (2 * options.heads) == 0,
            "llama", "a width of ", options.width, " cannot be divided among ", options.heads,
            " heads of an even number of features, which rotary positions need. Choose a multiple "
            "of twice the heads");
  check_arg(options.key_heads > 0 && options.heads % options.key_heads == 0, "llama", options.heads,
            " heads cannot share ", options.key_heads,
            " heads of keys and values. Choose a divisor");
  return options;
}

void init_llama(const nn::Module& net) {
  for (const NamedTensor& parameter : net.named_parameters()) {
    if (parameter.tensor.rank() == 2) nn::init::normal(parameter.tensor, 0, 0.02);
  }
}

std::unique_ptr<nn::Module> make_llama_head(const LlamaOptions& options, const Tensor& table) {
  if (options.tied) return std::make_unique<TiedHead>(table);
  return std::make_unique<nn::Linear>(options.width, options.vocabulary, false);
}

}  // namespace

// Everything but the head, which Hugging Face calls `model`.
class Llama::Body : public nn::Module {
 public:
  explicit Body(const LlamaOptions& options)
      : embed_tokens_(options.vocabulary, options.width),
        norm_(options.width, {.eps = options.eps}) {
    for (std::int64_t i = 0; i < options.layers; ++i) layers_.emplace<LlamaBlock>(options);
    add("embed_tokens", embed_tokens_);
    add("layers", layers_);
    add("norm", norm_);
  }

  Tensor forward(const Tensor& tokens) override {
    Tensor x = embed_tokens_(tokens);
    for (const auto& block : layers_) x = (*block)(x);
    return norm_(x);
  }

  // The last token's part of the result, of tokens that follow those of the cache: [b, width].
  Tensor after(const Tensor& tokens, KeyValueCache& cache) {
    return run(tokens, [&](const Tensor& input) {
      Tensor x = embed_tokens_(input);
      std::size_t layer = 0;
      for (const auto& block : layers_) {
        x = static_cast<LlamaBlock&>(*block).after(x, cache.layer(layer++));
      }
      return norm_(last_token(x, cache));
    });
  }

  const Tensor& table() const { return embed_tokens_.weight(); }

 private:
  nn::Embedding embed_tokens_;
  nn::ModuleList layers_;
  nn::RmsNorm norm_;
};

Llama::Llama(LlamaOptions options)
    : options_(checked_llama(options)),
      model_(std::make_unique<Body>(options)),
      lm_head_(make_llama_head(options, model_->table())) {
  add("model", *model_);
  add("lm_head", *lm_head_);
  init_llama(*this);
}

Llama::~Llama() = default;

Tensor Llama::forward(const Tensor& tokens) {
  check_token_shape(tokens, "llama");
  return (*lm_head_)((*model_)(tokens));
}

Tensor Llama::next_logits(const Tensor& tokens, KeyValueCache& cache,
                          std::span<const std::int64_t> counts) {
  check_next_tokens(tokens, "llama");
  cache.expect(tokens, counts);
  return run(tokens, [&](const Tensor& input) { return (*lm_head_)(model_->after(input, cache)); });
}

std::vector<NamedTensor> Llama::from_file(std::vector<NamedTensor> tensors) const {
  // Older files have the wavelengths of rope().
  std::erase_if(tensors, [](const NamedTensor& entry) {
    return entry.name.ends_with(".rotary_emb.inv_freq");
  });
  for (NamedTensor& entry : tensors) {
    const bool is_whole = entry.name == kLlamaHead || entry.name.starts_with(kBodyPrefix);
    if (!is_whole) entry.name.insert(0, kBodyPrefix);
  }
  return tensors;
}

std::vector<NamedTensor> Llama::to_file() const {
  std::vector<NamedTensor> tensors = state();
  if (options_.tied) {
    std::erase_if(tensors, [](const NamedTensor& entry) { return entry.name == kLlamaHead; });
  }
  return tensors;
}

}  // namespace mezzo::models
