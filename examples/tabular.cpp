// A table of numbers in which one class is rare: batches of tensors, and class weights.
#include <cstdio>

#include "mezzo/mezzo.h"

using namespace mezzo;

namespace {

struct Table {
  Tensor features;  // f32 [n, 4]
  Tensor classes;   // i64 [n]: 1 for about one row in fifteen, otherwise 0
};

Table make_table(std::int64_t rows, std::uint64_t seed) {
  Generator random(seed);
  Table table{randn({rows, 4}, random), zeros({rows}, DType::kI64)};
  const auto* x = table.features.data<float>();
  auto* label = table.classes.mutable_data<std::int64_t>();
  for (std::int64_t i = 0; i < rows; ++i, x += 4) {
    label[i] = x[0] * x[1] + x[2] > 2 ? 1 : 0;
  }
  return table;
}

// The share of the rare rows that the network finds.
double found(train::Model& model, const Table& table) {
  const auto guesses = argmax(model.predict(table.features), 1).to_vector<std::int64_t>();
  const auto classes = table.classes.to_vector<std::int64_t>();
  double rare = 0;
  double right = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    rare += classes[i] == 1 ? 1 : 0;
    right += classes[i] == 1 && guesses[i] == 1 ? 1 : 0;
  }
  return right / rare;
}

void train_with(const char* name, const CrossEntropyOptions& loss) {
  manual_seed(1);
  const Table table = make_table(2000, 1);
  const Table test = make_table(1000, 2);
  data::TensorBatches batches(table.features, table.classes, {.batch_size = 50});
  data::TensorBatches test_batches(test.features, test.classes, {.shuffle = false});

  nn::Sequential net;
  net.emplace<nn::Linear>(4, 32);
  net.emplace<nn::ReLU>();
  net.emplace<nn::Linear>(32, 2);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  train::Model model(net, nn::CrossEntropyLoss(loss), optimizer,
                     {.amp = {.level = "O1", .dtype = DType::kBf16}});
  const train::FitResult result = model.fit(5, batches, {.validation = &test_batches});
  std::printf("%s: accuracy %.3f, %.3f of the rare class found\n", name,
              result.metrics.at("accuracy"), found(model, test));
}

}  // namespace

int main() {
  train_with("all classes count the same", {});
  train_with("the rare class counts ten times", {.class_weights = from_values({1.0F, 10.0F}, {2})});
}
