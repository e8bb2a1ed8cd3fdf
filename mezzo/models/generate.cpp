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

void check_prompt(const std::vector<std::int64_t>& prompt, std::int64_t vocabulary) {
  check_arg(!prompt.empty(), "generate", "a prompt is empty. Give one token at least");
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
      : model_(model), options_(options), device_(device) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      sequences_.push_back({.text = prompts[i], .random = Generator(options.seed + i)});
    }
  }

  std::vector<std::vector<std::int64_t>> run() {
    std::vector<std::vector<std::int64_t>> results(sequences_.size());
    for (std::int64_t i = 0; i < options_.tokens && has_more(); ++i) {
      const Tensor logits = next_logits();
      for (std::size_t s = 0; s < sequences_.size(); ++s) {
        const std::int64_t token = choose(logits, s);
        sequences_[s].text.push_back(token);
        if (!sequences_[s].has_ended) keep(s, token, results[s]);
      }
    }
    return results;
  }

 private:
  struct Sequence {
    std::vector<std::int64_t> text;  // the prompt and what follows
    Generator random;
    std::size_t begin = 0;  // of what the network sees of the text
    bool has_ended = false;
  };

  bool has_more() const { return !std::ranges::all_of(sequences_, &Sequence::has_ended); }

  // f32 [sequences, vocabulary], on the CPU.
  Tensor next_logits() {
    if (move_windows()) cache_.clear();
    // Tokens that are not in the cache: all of a window at first, then the newest.
    std::vector<std::int64_t> counts;
    for (const Sequence& sequence : sequences_) {
      const std::size_t window = sequence.text.size() - sequence.begin;
      counts.push_back(cache_.length() == 0 ? static_cast<std::int64_t>(window) : 1);
    }
    const Tensor logits = model_.next_logits(newest(counts), cache_, counts);
    return contiguous(logits.astype(DType::kF32).to(kCpuDevice));
  }

  // Moves windows that are longer than the network allows to their newer half; whether there was
  // one. Then all sequences are read anew, so that they still share a cache.
  bool move_windows() {
    const std::int64_t longest = model_.longest_sequence();
    if (longest == 0) return false;
    bool has_moved = false;
    for (Sequence& sequence : sequences_) {
      const std::size_t size = sequence.text.size();
      if (size - sequence.begin <= static_cast<std::size_t>(longest)) continue;
      sequence.begin = size - static_cast<std::size_t>(std::max<std::int64_t>(longest / 2, 1));
      has_moved = true;
    }
    return has_moved;
  }

  // The last tokens of all sequences, as many as the counts say, and zeros after them:
  // i64 [sequences, largest count].
  Tensor newest(const std::vector<std::int64_t>& counts) const {
    const std::int64_t width = std::ranges::max(counts);
    std::vector<std::int64_t> tokens;
    for (std::size_t s = 0; s < sequences_.size(); ++s) {
      const std::vector<std::int64_t>& text = sequences_[s].text;
      tokens.insert(tokens.end(), text.end() - counts[s], text.end());
      tokens.resize((s + 1) * static_cast<std::size_t>(width));
    }
    return from_values(tokens, {static_cast<std::int64_t>(sequences_.size()), width}).to(device_);
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
  for (const auto& prompt : prompts) check_prompt(prompt, model.vocabulary());
  const nn::Inference inference(net);
  return Generation(model, prompts, options, net.device()).run();
}

}  // namespace mezzo::models
