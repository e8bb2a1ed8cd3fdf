// A GPT of one's own modules, trained on the bytes of a text: gpt [FILE [STEPS]]. Without a file it
// learns a rhyme. At the end it continues the beginning of the text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kBytes = 256;  // the vocabulary
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kHeads = 4;

class Block : public nn::Module {
 public:
  Block() {
    add("ln_1", ln_1_), add("attn", attn_), add("ln_2", ln_2_), add("fc", fc_), add("proj", proj_);
  }
  // x: [b, t, width]. add_residual() keeps the sum of all branches in f32 where add() would not.
  Tensor forward(const Tensor& x) override {
    const Tensor attended = add_residual(x, attn_(ln_1_(x)));
    return add_residual(attended, proj_(gelu(fc_(ln_2_(attended)), GeluForm::kTanh)));
  }

 private:
  nn::LayerNorm ln_1_{kWidth};
  nn::MultiHeadAttention attn_{kWidth, kHeads, {.causal = true}};
  nn::LayerNorm ln_2_{kWidth};
  nn::Linear fc_{kWidth, 4 * kWidth};
  nn::Linear proj_{4 * kWidth, kWidth};
};

class Gpt : public nn::Module {
 public:
  Gpt() {
    for (int i = 0; i < 2; ++i) blocks_.emplace<Block>();
    add("wte", wte_), add("wpe", wpe_), add("h", blocks_), add("ln_f", ln_f_), add("head", head_);
    nn::init::normal(wte_.weight(), 0, 0.02);
    nn::init::normal(wpe_.weight(), 0, 0.02);
    nn::tie(*this, "head.weight", "wte.weight");
  }
  // tokens: i64 [b, t]; the logits of the next ones: [b, t, bytes].
  Tensor forward(const Tensor& tokens) override {
    return head_(ln_f_(blocks_(wpe_(wte_(tokens)))));
  }

 private:
  nn::Embedding wte_{kBytes, kWidth};
  nn::LearnedPositions wpe_{kTokens, kWidth};
  nn::Sequential blocks_;
  nn::LayerNorm ln_f_{kWidth};
  nn::Linear head_{kWidth, kBytes, false};
};

std::string read_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `count` tokens of the text from each of these places on: i64 [n, count].
Tensor tokens_at(const std::string& text, const std::vector<std::size_t>& places,
                 std::int64_t count) {
  Tensor tokens = empty({std::ssize(places), count}, DType::kI64);
  auto* token = tokens.mutable_data<std::int64_t>();
  for (const std::size_t place : places) {
    for (std::int64_t i = 0; i < count; ++i) {
      *token++ = static_cast<unsigned char>(text[place + static_cast<std::size_t>(i)]);
    }
  }
  return tokens;
}

// Appends the likeliest bytes, one after another.
std::string continued(nn::Module& net, std::string text, int count) {
  const nn::Inference inference(net);
  for (int i = 0; i < count; ++i) {
    const auto t = std::min<std::int64_t>(std::ssize(text), kTokens);
    const Tensor logits = net(tokens_at(text, {text.size() - static_cast<std::size_t>(t)}, t));
    text +=
        static_cast<char>(static_cast<unsigned char>(argmax(slice(logits, 1, t - 1, t)).item()));
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  manual_seed(1);
  std::string text = argc > 1 ? read_text(argv[1]) : "";
  while (argc < 2 && text.size() < 1000)
    text += "row, row, row your boat, gently down the stream; ";
  if (std::ssize(text) <= kTokens) return std::puts("the text is too short, or cannot be read"), 1;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 150;
  Gpt net;
  optim::AdamW optimizer(
      optim::decay_groups(net.parameters(), optim::AdamWOptions{.lr = 3e-3, .weight_decay = 0.1}));
  amp::TrainStep step(net, nn::NextTokenLoss(), optimizer, amp::GradScaler({}, false),
                      {.policy = amp::Policy{.level = amp::Level::kO2}, .max_grad_norm = 1.0});
  for (int i = 0; i < steps; ++i) {
    std::vector<std::size_t> places(8);
    for (std::size_t& place : places) place = default_generator().below(text.size() - kTokens);
    const Tensor tokens = tokens_at(text, places, kTokens + 1);
    const double loss = step(slice(tokens, 1, 0, kTokens), slice(tokens, 1, 1, kTokens + 1)).loss;
    if (i % 50 == 0 || i == steps - 1) std::printf("step %d: loss %.3f\n", i + 1, loss);
  }
  std::printf("%s\n", continued(net, text.substr(0, 16), 48).c_str());
}
