// Sequences of unequal length: an LSTM decides which of two motifs is hidden in a sequence of
// tokens. Batches are padded; the lengths go along, so that padding has no influence, and sequences
// of similar length share a batch. It trains in bf16, in a loop of its own, for 8 epochs unless an
// argument says how many: sequence_lengths [EPOCHS]
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kTokens = 12;
constexpr std::int64_t kShortest = 6;
constexpr std::int64_t kLongest = 40;

struct Texts {
  std::vector<Tensor> tokens;  // i64 [t], each of its own length
  Tensor motifs;               // i64 [n]: 0 for the tokens 1 2 3, 1 for 3 2 1
};

// Random tokens with one motif somewhere. All tokens occur anywhere, so single ones say little.
Texts make_texts(std::int64_t n, std::uint64_t seed) {
  Generator random(seed);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
  };
  Texts texts{{}, zeros({n}, DType::kI64)};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t length = kShortest + below(kLongest - kShortest + 1);
    const std::int64_t motif = below(2);
    const std::int64_t place = below(length - 2);
    const Tensor text = zeros({length}, DType::kI64);
    auto* token = text.mutable_data<std::int64_t>();
    for (std::int64_t t = 0; t < length; ++t) token[t] = below(kTokens);
    for (std::int64_t k = 0; k < 3; ++k) token[place + k] = motif == 0 ? 1 + k : 3 - k;
    texts.tokens.push_back(text);
    texts.motifs.mutable_data<std::int64_t>()[i] = motif;
  }
  return texts;
}

data::SequenceBatches batches_of(const Texts& texts, bool shuffle) {
  data::SequenceBatchesOptions options;
  options.batches = {.batch_size = 50, .shuffle = shuffle};
  if (shuffle) options.batches.sampler = data::length_buckets(data::lengths_of(texts.tokens));
  return {texts.tokens, texts.motifs, options};
}

}  // namespace

int main(int argc, char** argv) {
  manual_seed(1);
  constexpr int kEpochs = 8;
  const int epochs = argc > 1 ? std::atoi(argv[1]) : kEpochs;
  const Texts texts = make_texts(3000, 1);
  const Texts others = make_texts(500, 2);
  data::SequenceBatches batches = batches_of(texts, true);
  data::SequenceBatches test_batches = batches_of(others, false);

  models::TextLstm net(
      {.vocabulary = kTokens, .embedding = 16, .hidden = 48, .layers = 1, .num_classes = 2});
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  data::Batch batch;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    while (batches.next(batch)) {
      const amp::Autocast region(DType::kBf16);
      const Tensor logits = net({batch.images, batch.more[0]})[0];
      optimizer.zero_grad();
      cross_entropy(logits, batch.labels).backward();
      optim::clip_grad_norm(net.parameters(), 1);
      optimizer.step();
    }
  }

  std::int64_t right = 0;
  const nn::Inference inference(net);
  while (test_batches.next(batch)) {
    const amp::Autocast region(DType::kBf16);
    right += count_correct(net({batch.images, batch.more[0]})[0], batch.labels);
  }
  const double accuracy = 100.0 * static_cast<double>(right) / 500;
  std::printf("of new sequences, %.1f %% are read right\n", accuracy);
  return epochs < kEpochs || accuracy >= 95 ? 0 : 1;
}
