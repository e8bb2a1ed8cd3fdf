// Fine-tuning a vision transformer: weights from a file, another head, frozen layers, and learning
// rates per group. A small network that tells ten shapes apart stands for one that others have
// trained; it becomes one for two kinds of them. With torchvision's weights, make the network with
// models::create("vit_b_16", {.num_classes = 2, .image_size = 224}) and read vit_b_16.safetensors.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kBatch = 32;
constexpr int kSteps = 150;

models::ModelConfig task(std::int64_t classes) {
  return {.in_channels = 3, .num_classes = classes, .image_size = 32};
}
const models::VitOptions kSizes{.patch = 8, .layers = 3, .heads = 4, .width = 48, .hidden = 96};

// 1 for the last five kinds.
Tensor two_kinds(const Tensor& labels) { return ge(labels, 5).astype(DType::kI64); }

// Trains for some steps, and prints the losses at the beginning and the end.
void train_some(const char* name, nn::Module& net, optim::Optimizer& optimizer, bool two) {
  const auto shapes = data::open_dataset("shapes", data::Split::kTrain);
  data::DataLoader loader(*shapes, {.batch_size = kBatch, .drop_remainder = true, .seed = 1});
  amp::TrainStep step(net, nn::CrossEntropyLoss(), optimizer, amp::GradScaler({}, false),
                      {.policy = amp::Policy{.level = amp::Level::kO2}});
  data::Batch batch;
  for (int i = 0; i < kSteps; ++i) {
    if (!loader.next(batch)) loader.next(batch);  // the next epoch
    const double loss = step(batch.images, two ? two_kinds(batch.labels) : batch.labels).loss;
    if (i == 0 || i == kSteps - 1) std::printf("%s, step %d: loss %.3f\n", name, i + 1, loss);
  }
}

// The weights that someone else has trained.
void make_weights(const std::string& path) {
  models::Vit net(task(10), kSizes);
  optim::AdamW optimizer(net.parameters(), {.lr = 2e-3});
  train_some("ten kinds", net, optimizer, false);
  io::write_safetensors(path, models::to_weight_file(net));
}

std::vector<Tensor> trainable(nn::Module& net, const std::string& pattern) {
  std::vector<Tensor> result;
  for (const NamedTensor& entry : nn::parameters_matching(net, pattern, "fine_tune_vit")) {
    if (entry.tensor.requires_grad()) result.push_back(entry.tensor);
  }
  return result;
}

}  // namespace

int main() {
  manual_seed(1);
  const std::string path = std::filesystem::temp_directory_path() / "fine_tune_vit.safetensors";
  make_weights(path);

  models::Vit net(task(2), kSizes);
  const nn::LoadReport report =
      nn::load_matching(net, io::read_safetensors(path).tensors, {nn::head_of(net)});
  std::filesystem::remove(path);
  std::printf("%zu tensors taken, %zu start anew\n", report.taken.size(), report.left_out.size());

  // What is near the image stays as it is.
  nn::freeze(
      net, {"conv_proj", "class_token", "encoder.pos_embedding", "encoder.layers.encoder_layer_0"});
  std::printf("frozen: %s\n", nn::describe_frozen(net).c_str());

  // The new head learns ten times as fast as the rest, and only matrices decay.
  auto groups = optim::decay_groups(trainable(net, "encoder"),
                                    optim::AdamWOptions{.lr = 2e-4, .weight_decay = 0.05});
  groups.push_back({trainable(net, "heads"), {.lr = 2e-3, .weight_decay = 0}});
  optim::AdamW optimizer(groups);
  train_some("two kinds", net, optimizer, true);
}
