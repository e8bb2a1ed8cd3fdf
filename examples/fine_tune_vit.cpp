// Fine-tuning a vision transformer: weights from a file, another head, frozen layers, and learning
// rates per group. A small network that tells digits apart stands for one that others have
// trained; it becomes one that tells small digits from large ones. With torchvision's weights, make
// the network with models::create("vit_b_16", {.num_classes = 2, .image_size = 224}) and read
// vit_b_16.safetensors. Its argument is the number of steps of each training: fine_tune_vit [STEPS]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kBatch = 32;

models::ModelConfig config(std::int64_t classes) {
  return {.in_channels = 1, .num_classes = classes, .image_size = 28};
}
const models::VitOptions kSizes{.patch = 7, .layers = 3, .heads = 4, .width = 48, .hidden = 96};

// 1 for digits from 5 on.
Tensor large_or_small(const Tensor& labels) { return ge(labels, 5).astype(DType::kI64); }

struct Task {
  const char* name;
  int steps;
  bool two;  // small and large digits, instead of all ten
};

// Trains for some steps, and prints the losses at the beginning and the end.
void train_some(const Task& task, nn::Module& net, optim::Optimizer& optimizer) {
  const auto digits = data::open_dataset("digits", data::Split::kTrain);
  data::DataLoader loader(*digits, {.batch_size = kBatch, .drop_remainder = true, .seed = 1});
  amp::TrainStep step(net, nn::CrossEntropyLoss(), optimizer, amp::GradScaler({}, false),
                      {.policy = amp::Policy{.level = amp::Level::kO2}});
  data::Batch batch;
  for (int i = 0; i < task.steps; ++i) {
    if (!loader.next(batch)) loader.next(batch);  // the next epoch
    const Tensor labels = task.two ? large_or_small(batch.labels) : batch.labels;
    const double loss = step(batch.images, labels).loss;
    const bool is_end = i == 0 || i == task.steps - 1;
    if (is_end) std::printf("%s, step %d: loss %.3f\n", task.name, i + 1, loss);
  }
}

// The weights that someone else has trained.
void make_weights(const std::string& path, int steps) {
  models::Vit net(config(10), kSizes);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
  train_some({"ten digits", steps, false}, net, optimizer);
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

int main(int argc, char** argv) {
  manual_seed(1);
  const int steps = argc > 1 ? std::atoi(argv[1]) : 400;
  const std::string path = std::filesystem::temp_directory_path() /
                           ("fine_tune_vit_" + std::to_string(::getpid()) + ".safetensors");
  make_weights(path, steps);

  models::Vit net(config(2), kSizes);
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
  train_some({"small or large", steps, true}, net, optimizer);
}
