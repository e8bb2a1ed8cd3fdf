// A network with two inputs, three results and a tied embedding, and a loss of its batches.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/amp/loss_of_batch.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/tie.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"

namespace mezzo::test {

inline constexpr std::int64_t kTowerWords = 11;
inline constexpr std::int64_t kTowerWidth = 8;

// One encoder of vectors [n, width].
class Tower final : public nn::Module {
 public:
  Tower() { add("dropout", dropout_), add("fc", fc_); }
  Tensor forward(const Tensor& x) override { return fc_(dropout_(x)); }

 private:
  nn::Dropout dropout_{0.25};
  nn::Linear fc_{kTowerWidth, kTowerWidth};
};

// queries and texts: i64 [n, t]. Their vectors, and the logits of a word that continues the text,
// by the table of the embedding.
class TwoTowers final : public nn::Module {
 public:
  TwoTowers() {
    add("words", words), add("query", query), add("text", text), add("next", next);
    nn::tie(*this, "next.weight", "words.weight");
  }
  nn::Tensors forward_all(const nn::Tensors& inputs) override {
    const Tensor a = query(mean(words(inputs[0]), {1}));
    const Tensor b = text(mean(words(inputs[1]), {1}));
    return {a, b, next(b)};
  }

  nn::Embedding words{kTowerWords, kTowerWidth};
  Tower query;
  Tower text;
  nn::Linear next{kTowerWidth, kTowerWords, false};
};

// Inputs: queries [n, 3] and texts [n, 4]. Labels: how alike they are, f32 [n], and the next word,
// i64 [n]. Equal seeds give equal batches.
inline Batch two_tower_batch(std::uint64_t seed, std::int64_t n = 8) {
  Generator generator(seed);
  const auto words = [&](std::int64_t count) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<std::int64_t>(generator.below(kTowerWords)));
    }
    return values;
  };
  return {.inputs = {from_values(words(n * 3), {n, 3}), from_values(words(n * 4), {n, 4})},
          .labels = {randn({n}, generator), from_values(words(n), {n})}};
}

// Both losses of the network's results.
inline Tensor two_tower_loss(const nn::Tensors& results, const nn::Tensors& labels) {
  return mse_loss(sum(results[0] * results[1], {1}), labels[0]) +
         cross_entropy(results[2], labels[1]);
}

inline amp::LossOfBatch two_tower_loss_of(TwoTowers& net) {
  return amp::LossOfBatch([&net](Batch& batch) {
    const nn::Tensors results = net(batch.inputs);
    batch.output = results[2];
    return two_tower_loss(results, batch.labels);
  });
}

}  // namespace mezzo::test
