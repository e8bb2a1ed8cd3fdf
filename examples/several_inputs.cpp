// A network with two inputs and two results, trained in bf16: one tower reads a question in words,
// the other a text, and a question belongs to the text whose vector is nearest. Both read words by
// the same table, which is also the weight of a head that guesses a word of the text: a tied
// embedding.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kWords = 200;
constexpr std::int64_t kWidth = 32;
constexpr std::int64_t kTopics = 20;  // the words of a topic are 10 in a row

class TwoTowers : public nn::Module {
 public:
  TwoTowers() {
    add("words", words_), add("question", question_), add("text", text_), add("guess", guess_);
    nn::tie(*this, "guess.weight", "words.weight");
  }

  // questions: i64 [n, 3]; texts: i64 [n, 8]. The products of all questions with all texts, [n, n],
  // and the logits of a word for each text, [n, words].
  nn::Tensors forward_all(const nn::Tensors& inputs) override {
    const Tensor question = question_(mean(words_(inputs[0]), {1}));
    const Tensor text = text_(mean(words_(inputs[1]), {1}));
    return {matmul(question, text, {.transpose_b = true}), guess_(text)};
  }

 private:
  nn::Embedding words_{kWords, kWidth};
  nn::Linear question_{kWidth, kWidth};
  nn::Linear text_{kWidth, kWidth};
  nn::Linear guess_{kWidth, kWords, false};
};

// Questions and texts of the same topic, and for each a word that the text could continue with.
struct Pairs {
  Tensor questions;
  Tensor texts;
  Tensor next;
};

Pairs pairs_of(std::int64_t n, std::uint64_t seed) {
  Generator random(seed);
  Pairs pairs{zeros({n, 3}, DType::kI64), zeros({n, 8}, DType::kI64), zeros({n}, DType::kI64)};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto topic = static_cast<std::int64_t>(random.below(kTopics));
    const auto fill_row = [&](const Tensor& rows) {
      const std::int64_t count = rows.numel() / n;
      for (std::int64_t k = 0; k < count; ++k) {
        rows.mutable_data<std::int64_t>()[i * count + k] =
            topic * 10 + static_cast<std::int64_t>(random.below(10));
      }
    };
    fill_row(pairs.questions), fill_row(pairs.texts), fill_row(pairs.next);
  }
  return pairs;
}

}  // namespace

int main() {
  manual_seed(1);
  const Pairs train = pairs_of(2048, 1);
  const Pairs test = pairs_of(512, 2);
  data::TensorBatches loader({train.questions, train.texts}, {train.next}, {.batch_size = 32});
  data::TensorBatches test_loader({test.questions, test.texts}, {test.next},
                                  {.batch_size = 32, .shuffle = false});

  TwoTowers net;
  optim::AdamW optimizer(net.parameters(), {.lr = 3e-3});
  // Question i belongs to text i. The network computes in bf16, and both losses in f32.
  const auto loss = [&net](Batch& batch) {
    const nn::Tensors results = net(batch.inputs);
    std::vector<std::int64_t> own;
    for (std::int64_t i = 0; i < batch.size(); ++i) own.push_back(i);
    batch.output = results[1];  // for the metric
    return cross_entropy(results[0], from_values(own, {batch.size()})) +
           cross_entropy(results[1], batch.labels[0]);
  };
  train::Model model(net, loss, optimizer,
                     {.metrics = {"loss", "top10"}, .amp = {.level = "O2", .dtype = DType::kBf16}});
  train::LossMonitor monitor(64);
  model.fit(6, loader, {.callbacks = {&monitor}});

  const auto found = model.eval(test_loader);
  std::printf("loss %.3f; the word is among the 10 likeliest in %.1f %% of the texts\n",
              found.at("loss"), 100 * found.at("top10"));
  const interchange::OnnxSignature signature{
      .inputs = {{.example = {3}, .dtype = DType::kI64, .name = "question"},
                 {.example = {8}, .dtype = DType::kI64, .name = "text"}},
      .results = {"match", "word"}};
  const std::string file = interchange::serialize_onnx(net, signature);
  std::printf("%lld parameters, the table counted once; %zu bytes as ONNX\n",
              static_cast<long long>(net.parameter_count()), file.size());
}
