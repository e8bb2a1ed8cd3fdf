// Sequences of tokens: a hand-written gated recurrent unit (GRU) reads them and decides which of
// two tokens came first. It trains in bf16 at O1, on batches of tensors.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kTokens = 8;   // the questions are about 0 and 1
constexpr std::int64_t kLength = 12;  // tokens in a sequence

// A GRU as in Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.
class Reader : public nn::Module {
 public:
  Reader() {
    add("embedding", embedding_), add("input", input_), add("state", state_), add("head", head_);
  }

  // tokens: i64 [n, length]; the logits: [n, 2].
  Tensor forward(const Tensor& tokens) override {
    // The tokens' part of the gates does not depend on the state: one product computes all steps.
    const Tensor x = input_(embedding_(tokens));  // [n, length, 3 * kState]
    Tensor h = zeros({tokens.size(0), kState}, x.dtype());
    for (std::int64_t t = 0; t < tokens.size(1); ++t) {
      const Tensor now = reshape(slice(x, 1, t, t + 1), {tokens.size(0), 3 * kState});
      const Tensor before = state_(h);
      const auto part = [](const Tensor& all, std::int64_t i) {
        return slice(all, 1, i * kState, (i + 1) * kState);
      };
      const Tensor reset = sigmoid(part(now, 0) + part(before, 0));
      const Tensor keep = sigmoid(part(now, 1) + part(before, 1));
      const Tensor fresh = tanh(part(now, 2) + reset * part(before, 2));
      h = fresh + keep * (h - fresh);  // keep * h + (1 - keep) * fresh
    }
    return head_(h);
  }

 private:
  static constexpr std::int64_t kState = 32;
  nn::Embedding embedding_{kTokens, 16};
  nn::Linear input_{16, 3 * kState};
  nn::Linear state_{kState, 3 * kState};
  nn::Linear head_{kState, 2};
};

struct Sentences {
  Tensor tokens;  // i64 [n, kLength]
  Tensor first;   // i64 [n]: 1 if the first 1 comes before the first 0
};

Sentences make_sentences(std::int64_t n, std::uint64_t seed) {
  Generator random(seed);
  const Tensor numbers = rand({n, kLength}, random);
  Sentences sentences{zeros({n, kLength}, DType::kI64), zeros({n}, DType::kI64)};
  const float* number = numbers.data<float>();
  auto* token = sentences.tokens.mutable_data<std::int64_t>();
  auto* first = sentences.first.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    bool is_open = true;
    for (std::int64_t t = 0; t < kLength; ++t, ++number, ++token) {
      *token = static_cast<std::int64_t>(*number * kTokens);
      if (is_open && *token <= 1) first[i] = *token;
      is_open = is_open && *token > 1;
    }
  }
  return sentences;
}

}  // namespace

int main() {
  manual_seed(1);
  const Sentences sentences = make_sentences(2000, 1);
  const Sentences others = make_sentences(500, 2);
  data::TensorBatches batches(sentences.tokens, sentences.first, {.batch_size = 50});
  data::TensorBatches test_batches(others.tokens, others.first, {.shuffle = false});
  Reader net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  train::Model model(net, nn::CrossEntropyLoss(), optimizer,
                     {.amp = {.level = "O1", .dtype = DType::kBf16}});
  const train::FitResult result = model.fit(6, batches, {.validation = &test_batches});
  std::printf("of new sequences, %.1f %% are read right\n", 100 * result.metrics.at("accuracy"));
}
