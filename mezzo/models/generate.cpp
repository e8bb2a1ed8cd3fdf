#include "mezzo/models/generate.h"

#include <algorithm>
#include <memory>
#include <span>

#include "mezzo/nn/inference.h"
#include "mezzo/ops/cast.h"

namespace mezzo::models {
namespace {

LanguageModel& language_model(nn::Module& net) {
  auto* model = dynamic_cast<LanguageModel*>(&net);
  check_arg(model != nullptr, "generate", "the network predicts no tokens. Use a language model");
  return *model;
}

void check_prompt(const std::vector<std::int64_t>& prompt, std::size_t length,
                  std::int64_t vocabulary) {
  check_arg(!prompt.empty(), "generate", "a prompt is empty. Give one token at least");
  check_arg(prompt.size() == length, "generate", "prompts have ", length, " and ", prompt.size(),
            " tokens. Generate from prompts of the same length together");
  for (const std::int64_t token : prompt) {
    check_arg(token >= 0 && token < vocabulary, "generate", "a prompt has token ", token,
              ", the vocabulary has ", vocabulary, " tokens");
  }
}

// All sequences of a call.
class Generation {
 public:
  Generation(LanguageModel& model, const std::vector<std::vector<std::int64_t>>& prompts,
             const GenerateOptions& options, Device device)
      : model_(model),
        options_(options),
        device_(device),
        texts_(prompts),
        unread_(prompts[0].size()) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      sequences_.push_back({Generator(options.seed + i), false});
    }
  }

  std::vector<std::vector<std::int64_t>> run() {
    std::vector<std::vector<std::int64_t>> results(texts_.size());
    for (std::int64_t i = 0; i < options_.tokens && has_more(); ++i) {
      const Tensor logits = next_logits();
      for (std::size_t s = 0; s < texts_.size(); ++s) {
        const std::int64_t token = choose(logits, s);
        texts_[s].push_back(token);
        if (!sequences_[s].has_ended) keep(s, token, results[s]);
      }
      unread_ = 1;
    }
    return results;
  }

 private:
  struct Sequence {
    Generator random;
    bool has_ended = false;
  };

  bool has_more() const { return !std::ranges::all_of(sequences_, &Sequence::has_ended); }

  // f32 [sequences, vocabulary], on the CPU.
  Tensor next_logits() {
    const std::int64_t longest = model_.longest_sequence();
    if (longest > 0 && cache_.length() + static_cast<std::int64_t>(unread_) > longest) {
      cache_.clear();
      unread_ = std::min(texts_[0].size(),
                         static_cast<std::size_t>(std::max<std::int64_t>(longest / 2, 1)));
    }
    const Tensor logits = model_.next_logits(newest(), cache_);
    return contiguous(logits.astype(DType::kF32).to(kCpuDevice));
  }

  // The last unread_ tokens of all sequences: i64 [sequences, unread_].
  Tensor newest() const {
    std::vector<std::int64_t> tokens;
    for (const std::vector<std::int64_t>& text : texts_) {
      tokens.insert(tokens.end(), text.end() - static_cast<std::ptrdiff_t>(unread_), text.end());
    }
    const Shape shape{static_cast<std::int64_t>(texts_.size()), static_cast<std::int64_t>(unread_)};
    return from_values(tokens, shape).to(device_);
  }

  std::int64_t choose(const Tensor& logits, std::size_t sequence) {
    const auto vocabulary = static_cast<std::size_t>(model_.vocabulary());
    const std::span<const float> row(logits.data<float>() + sequence * vocabulary, vocabulary);
    return sample_token(row, options_.sampling, sequences_[sequence].random);
  }

  void keep(std::size_t sequence, std::int64_t token, std::vector<std::int64_t>& result) {
    result.push_back(token);
    bool has_ended = std::ranges::find(options_.stops, token) != options_.stops.end();
    if (options_.on_token && !options_.on_token(sequence, token)) has_ended = true;
    sequences_[sequence].has_ended = has_ended;
  }

  LanguageModel& model_;
  const GenerateOptions& options_;
  Device device_;
  std::vector<std::vector<std::int64_t>> texts_;  // prompts and what follows
  std::size_t unread_;                            // newest tokens that are not in the cache
  std::vector<Sequence> sequences_;
  KeyValueCache cache_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> generate(
    nn::Module& net, const std::vector<std::vector<std::int64_t>>& prompts,
    const GenerateOptions& options) {
  LanguageModel& model = language_model(net);
  check_sampling(options.sampling);
  check_arg(options.tokens >= 0, "generate",
            "the number of tokens must not be negative: ", options.tokens);
  if (prompts.empty()) return {};
  for (const std::vector<std::int64_t>& prompt : prompts) {
    check_prompt(prompt, prompts.front().size(), model.vocabulary());
  }
  const nn::Inference inference(net);
  return Generation(model, prompts, options, net.device()).run();
}

}  // namespace mezzo::models
