// Tests training steps of networks for sequences on a device: recorded ones have the bits of eager
// ones.
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/gpt.h"
#include "mezzo/models/text_lstm.h"
#include "mezzo/nn/loss.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

class CudaSequences : public OnCard<> {};

constexpr std::int64_t kVocabulary = 11;

// [2, 9]: different tokens for each `first`.
Tensor some_tokens(std::int64_t first) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 18; ++i) values.push_back((first + i * i) % kVocabulary);
  return from_values(values, {2, 9});
}

// Losses and parameters of some steps. labels(i) are those of step i.
template <class Net, class Loss, class Labels>
std::vector<std::vector<float>> sequence_training(bool is_recorded, Net net, const Loss& loss,
                                                  const Labels& labels) {
  net.to(kCard);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  amp::TrainStep step(net, loss, optimizer, amp::GradScaler({}, false),
                      {.policy = amp::Policy{amp::Level::kO2, DType::kBf16}});
  if (is_recorded) step.set_execution(graph::captured(net));
  std::vector<std::vector<float>> numbers(1);
  for (std::int64_t i = 0; i < 5; ++i) {
    const double result = step(some_tokens(i).to(kCard), labels(i).to(kCard)).loss;
    numbers[0].push_back(static_cast<float>(result));
  }
  for (const Tensor& parameter : net.parameters()) numbers.push_back(floats(parameter));
  return numbers;
}

std::vector<std::vector<float>> gpt_training(bool is_recorded) {
  manual_seed(21);
  return sequence_training(
      is_recorded,
      models::Gpt(
          {.vocabulary = kVocabulary, .positions = 9, .layers = 2, .heads = 2, .width = 16}),
      nn::NextTokenLoss(), [](std::int64_t i) { return some_tokens(i + 1); });
}

std::vector<std::vector<float>> lstm_training(bool is_recorded) {
  manual_seed(21);
  return sequence_training(
      is_recorded,
      models::TextLstm(
          {.vocabulary = kVocabulary, .embedding = 8, .hidden = 12, .bidirectional = true}),
      nn::CrossEntropyLoss(), [](std::int64_t i) {
        return from_values(std::vector<std::int64_t>{i % 2, 1}, {2});
      });
}

TEST_F(CudaSequences, GptTrainingHasTheBitsOfEagerSteps) {
  EXPECT_EQ(gpt_training(true), gpt_training(false));
}

TEST_F(CudaSequences, LstmTrainingHasTheBitsOfEagerSteps) {
  EXPECT_EQ(lstm_training(true), lstm_training(false));
}

}  // namespace
}  // namespace mezzo
