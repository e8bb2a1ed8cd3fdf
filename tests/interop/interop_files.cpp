// Reads and writes files for the checks of tests/interop that no `mezzo` command covers.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "mezzo/mezzo.h"
#include "tests/interop/training_steps.h"

namespace {

using namespace mezzo;  // NOLINT(google-build-using-namespace): a program, not a header

// A network with the operations that ONNX export translates beyond those of mezzo/models.
class Operations : public nn::Module {
 public:
  Operations() {
    add("linear", linear_);
    add("conv", conv_);
    add("norm", norm_);
    add("enlarge", enlarge_);
    add("groups", groups_);
    add("instances", instances_);
    add_buffer("ahead", ahead_);
  }

  Tensor forward(const Tensor& x) override {
    // x: [n, 4, 6, 6]
    const Tensor smooth = avg_pool2d(x, {.kernel = 3, .stride = 1, .padding = 1});
    const Tensor border =
        avg_pool2d(x, {.kernel = 3, .stride = 1, .padding = 1, .count_include_pad = false});
    Tensor y = mul(sub(exp(tanh(smooth)), sigmoid(border)), x);
    const Tensor keys = slice(x, 1, 0, 2);
    y = y + attention(x, keys, keys, {.mask = permute(x, {0, 1, 3, 2}), .causal = true});
    y = y + slice(slice(decoded(x), 2, 1, 7), 3, 2, 8);
    y = div(y, sqrt(exp(x)));
    y = conv_(cat({y, log(sigmoid(x)), zeros({x.size(0), 2, 6, 6})}, 1));  // [n, 6, 3, 2]
    y = linear_(reshape(y, {x.size(0), 4, 9}));                            // [n, 4, 5]
    y = mezzo::add(softmax(y, 2), log_softmax(y, 1));
    y = matmul(gelu(norm_(y)), gelu(y, GeluForm::kTanh), {.transpose_b = true});  // [n, 4, 4]
    y = silu(y) + leaky_relu(y, 0.2) + clamp(y, -0.3, 0.5);
    const Tensor chosen = where(gt(y, 0), maximum(y, y * y), minimum(y, abs(y)));
    y = masked_fill(where(ahead_, chosen, y), eq(ahead_, 0), -0.25);
    y = (2.0 * y - 1.0) / (pow(mean(y, {2}, true) + sum(y, {1, 2}, true), 2) + 1.0);
    y = matmul(permute(y, {0, 2, 1}) + max(y, {1}, true), y, {.transpose_a = true});
    y = reshape(expand(reshape(y, {x.size(0), 4, 4, 1}), {x.size(0), 4, 4, 2}), {x.size(0), 4, 8});
    y = reshape(permute(y, {1, 0, 2}), {4, x.size(0) * 2, 4});  // the batch within
    y = permute(reshape(y - 2.0 * mean(y, {0}, true), {4, x.size(0), 8}), {1, 0, 2});
    return slice(y, 2, 1, 8, 3);  // [n, 4, 3]
  }

 private:
  Tensor decoded(const Tensor& x) {  // [n, 4, 7, 9]
    const Tensor large = nn::Upsample({1, 2})(enlarge_(max_pool2d(x, {.kernel = 2})));
    const Tensor norm = instances_(slice(groups_(large), 3, 0, 9));
    const Tensor edges = nn::Upsample({2, 3}, {nn::UpsampleMode::kBilinear})(norm);
    const Tensor corners = nn::Upsample({2, 3}, {nn::UpsampleMode::kBilinear, true})(norm);
    const Tensor slim = upsample_bilinear2d(norm, {.size = Size2d(31, 5)});
    const UpsampleBilinear2dOptions back = {.size = Size2d(7, 9), .align_corners = true};
    return upsample_bilinear2d(edges + corners, back) + upsample_bilinear2d(slim, back) +
           upsample_bilinear2d(norm, {.size = 1});
  }

  nn::ConvTranspose2d enlarge_{4,
                               4,
                               {4, 2},
                               {.stride = {2, 3},
                                .padding = Padding2d(0, 1, 1, 2),
                                .output_padding = {0, 1},
                                .dilation = 1,
                                .groups = 2}};
  nn::GroupNorm groups_{2, 4};
  nn::InstanceNorm2d instances_{4, {.affine = true}};
  nn::Linear linear_{9, 5};
  nn::LayerNorm norm_{5};
  Tensor ahead_ = le(reshape(arange(4), {4, 1}), arange(4));
  nn::Conv2d conv_{
      10,
      6,
      {3, 2},
      {.stride = {2, 3}, .padding = Padding2d(0, 1, 2, 1), .dilation = {1, 3}, .groups = 2}};
};

// Takes token indices, with positions from a buffer.
class Tokens final : public nn::Module {
 public:
  Tokens() {
    add("table", table_);
    add_buffer("places", places_);
  }
  Tensor forward(const Tensor& ids) override {
    return table_(ids) + embedding(table_.weight(), places_);
  }

 private:
  nn::Embedding table_{7, 4};
  Tensor places_ = arange(5, DType::kI64);
};

// ids: i64 [n, 5]; images: [n, 4]; hidden: bool [n, 4]. The logits of the ids by the table itself,
// and the images without what is hidden.
class Several final : public nn::Module {
 public:
  Several() {
    add("table", table_), add("head", head_);
    nn::tie(*this, "head.weight", "table.weight");
  }
  nn::Tensors forward_all(const nn::Tensors& inputs) override {
    return {head_(table_(inputs[0])), masked_fill(relu(inputs[1]), inputs[2], -1)};
  }

 private:
  nn::Embedding table_{7, 4};
  nn::Linear head_{4, 7, false};
};

void write_several(const std::string& folder, const Tensor& ids) {
  Several net;
  const Tensor images = randn({2, 4});
  const Tensor hidden = gt(randn({2, 4}), 0);
  const interchange::OnnxSignature signature{
      .inputs = {{.example = {5}, .dtype = DType::kI64},
                 {.example = {4}, .name = "images"},
                 {.example = {4}, .dtype = DType::kBool, .name = "hidden"}},
      .results = {"logits", "seen"}};
  interchange::export_onnx(net, signature, folder + "/several.onnx");
  const nn::Tensors results = net({ids, images, hidden});
  io::write_npy(folder + "/images.npy", images);
  io::write_npy(folder + "/hidden.npy", hidden);
  io::write_npy(folder + "/logits.npy", results[0]);
  io::write_npy(folder + "/seen.npy", results[1]);
}

void write_onnx(const std::string& folder) {
  manual_seed(1);
  Operations net;
  const Tensor input = randn({3, 4, 6, 6});
  interchange::export_onnx(net, {4, 6, 6}, folder + "/net.onnx");
  const NoGrad no_grad;
  io::write_npy(folder + "/input.npy", input);
  io::write_npy(folder + "/output.npy", net(input));
  Tokens tokens;
  const Tensor ids = from_values<std::int64_t>({0, 6, 1, 5, 2, 3, 3, 4, 0, 6}, {2, 5});
  interchange::export_onnx(tokens, {5}, folder + "/tokens.onnx", {.input = DType::kI64});
  io::write_npy(folder + "/ids.npy", ids);
  io::write_npy(folder + "/rows.npy", tokens(ids));
  write_several(folder, ids);
}

// Weights of gpt-tiny, a Llama as net.onnx, and what both compute of batches and lengths N x T.
void write_lengths(const std::string& folder) {
  manual_seed(2);
  const auto gpt = models::create("gpt-tiny", models::usual_config("gpt-tiny"));
  gpt->eval();
  io::write_safetensors(folder + "/weights", gpt->state());
  models::Llama llama(
      {.vocabulary = 256, .layers = 2, .heads = 4, .key_heads = 2, .width = 64, .hidden = 96});
  llama.eval();
  interchange::export_onnx(llama, {8}, folder + "/net.onnx",
                           {.input = DType::kI64, .open_length = true});
  const NoGrad no_grad;
  for (const std::int64_t n : {1, 4}) {
    for (const std::int64_t t : {3, 40}) {
      const Tensor ids = clamp(rand({n, t}) * 256, 0, 255).astype(DType::kI64);
      const std::string end = concat("_", n, "x", t, ".npy");
      io::write_npy(folder + "/ids" + end, ids);
      io::write_npy(folder + "/gpt" + end, (*gpt)(ids));
      io::write_npy(folder + "/llama" + end, llama(ids));
    }
  }
}

// A PNG file with one white pixel.
constexpr unsigned char kPng[] = {
    0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0x00, 0x00, 0x00, 0x0D, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00,
    0x00, 0x3A, 0x7E, 0x9B, 0x55, 0x00, 0x00, 0x00, 0x0A, 0x49, 0x44, 0x41, 0x54, 0x78,
    0xDA, 0x63, 0xF8, 0x0F, 0x00, 0x01, 0x01, 0x01, 0x00, 0x1C, 0xB0, 0x8C, 0x99, 0x00,
    0x00, 0x00, 0x00, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82};

void write_events(const std::string& folder) {
  io::EventWriter writer(folder);
  const Tensor values = from_values<float>({-1, 0.5, 1, 2}, {4});
  writer.add_histogram("weights", io::histogram_of(values), 3);
  writer.add_image("picture", std::as_bytes(std::span(kPng)), 3);
  writer.add_text("note", "**bold**", 3);
}

// Reads a list of texts, and writes the list of their numbers. What the numbers say is written to
// `decoded`, or, without such a name, must be the texts.
void tokenize(const std::string& tokenizer_path, const std::string& texts, const std::string& ids,
              const std::string& decoded) {
  const auto tokenizer = text::read_tokenizer(tokenizer_path);
  std::ifstream file(texts);
  nlohmann::json numbers = nlohmann::json::array();
  nlohmann::json back = nlohmann::json::array();
  for (const std::string text : nlohmann::json::parse(file)) {
    const std::vector<std::int32_t> encoded = tokenizer->encode(text);
    numbers.push_back(encoded);
    back.push_back(tokenizer->decode(encoded));
    if (decoded.empty() && back.back() != text) throw Error("another text came back: " + text);
  }
  std::ofstream(ids) << numbers;
  if (!decoded.empty()) std::ofstream(decoded) << back;
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "copy-npy" && words.size() == 3) {
    io::write_npy(words[2], io::read_npy(words[1]));
  } else if (what == "copy-safetensors" && words.size() == 3) {
    io::write_safetensors(words[2], io::read_safetensors(words[1]).tensors);
  } else if (what == "copy-pytorch" && words.size() == 3) {
    io::write_safetensors(words[2], io::read_pytorch(words[1]));
  } else if (what == "onnx" && words.size() == 2) {
    write_onnx(words[1]);
  } else if (what == "lengths" && words.size() == 2) {
    write_lengths(words[1]);
  } else if (what == "events" && words.size() == 2) {
    write_events(words[1]);
  } else if (what == "steps" && words.size() == 4) {
    interop::training_steps(words[1], words[2], std::stod(words[3]));
  } else if (what == "tokenize" && (words.size() == 4 || words.size() == 5)) {
    tokenize(words[1], words[2], words[3], words.size() == 5 ? words[4] : "");
  } else {
    std::fputs(
        "usage: copy-npy IN OUT, copy-safetensors IN OUT, copy-pytorch IN OUT, onnx FOLDER, "
        "lengths "
        "FOLDER, events FOLDER, steps MODEL FOLDER RATE or tokenize TOKENIZER TEXTS IDS "
        "[DECODED]\n",
        stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
