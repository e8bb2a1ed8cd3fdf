// A network with two inputs, an image and a question about it: "is this a 7?". It has its own
// training loop in bf16, since train::Model gives a network one tensor.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

class YesOrNo : public nn::Module {
 public:
  YesOrNo() {
    add("conv", conv_), add("digits", digits_), add("hidden", hidden_), add("answer", answer_);
  }

  // images: f32 [n, 1, 28, 28]; asked: i64 [n], a digit for each; the result, the logits of yes:
  // [n]. run() makes this a forward pass like any other, with the module's path and its precision
  // settings.
  Tensor operator()(const Tensor& images, const Tensor& asked) {
    return run(images, [&](const Tensor& x) {
      const Tensor seen = flatten(max_pool2d(relu(conv_(x)), {.kernel = 4}), 1);  // [n, 16 * 36]
      const Tensor question = digits_(asked).astype(seen.dtype());                // [n, 16]
      return reshape(answer_(relu(hidden_(cat({seen, question}, 1)))), {x.size(0)});
    });
  }
  Tensor forward(const Tensor& /*x*/) override {
    fail("YesOrNo", "needs an image and a digit. Call it with both");
  }

 private:
  nn::Conv2d conv_{1, 16, 5};
  nn::Embedding digits_{10, 16};
  nn::Linear hidden_{16 * 36 + 16, 64};
  nn::Linear answer_{64, 1};
};

struct Questions {
  Tensor asked;    // i64 [n]
  Tensor answers;  // f32 [n]: 1 for yes
};

// Every second question asks about another digit than the image shows, so its answer is no.
Questions questions_for(const Tensor& labels) {
  Questions questions{zeros(labels.shape(), DType::kI64), zeros(labels.shape())};
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    const std::int64_t digit = labels.data<std::int64_t>()[i];
    const bool yes = i % 2 == 1;
    questions.asked.mutable_data<std::int64_t>()[i] = yes ? digit : (digit + 1 + i / 2 % 9) % 10;
    questions.answers.mutable_data<float>()[i] = yes ? 1 : 0;
  }
  return questions;
}

}  // namespace

int main() {
  manual_seed(1);
  const auto digits = data::open_dataset("digits", data::Split::kTrain);
  const auto test_digits = data::open_dataset("digits", data::Split::kTest);
  data::DataLoader loader(*digits, {.batch_size = 64});
  data::DataLoader test_loader(*test_digits, {.batch_size = 500, .shuffle = false});

  YesOrNo net;
  optim::AdamW optimizer(net.parameters(), {.lr = 2e-3});
  data::Batch batch;
  for (int epoch = 0; epoch < 8; ++epoch) {
    while (loader.next(batch)) {
      const Questions questions = questions_for(batch.labels);
      const amp::Autocast region(DType::kBf16);
      const Tensor logits = net(batch.images, questions.asked);
      optimizer.zero_grad();
      binary_cross_entropy_with_logits(logits, questions.answers).backward();
      optimizer.step();
    }
  }

  double right = 0;
  double all = 0;
  const nn::Inference inference(net);
  while (test_loader.next(batch)) {
    const Questions questions = questions_for(batch.labels);
    const amp::Autocast region(DType::kBf16);
    const Tensor yes = gt(net(batch.images, questions.asked), 0);
    right += sum(eq(yes.astype(DType::kF32), questions.answers).astype(DType::kF32)).item();
    all += static_cast<double>(yes.numel());
  }
  std::printf("%.1f %% of the answers are right\n", 100 * right / all);
}
