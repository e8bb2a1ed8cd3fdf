// The throughput of the input pipeline: images per second from a data set to normalised batches,
// including everything that training does to images. Without --data it uses 50,000 random images of
// CIFAR-10's size.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/mezzo.h"

namespace mezzo {
namespace {

struct Setting {
  std::string data{};
  std::int64_t image_size = 224;
  std::int64_t batch_size = 32;
  std::vector<std::int64_t> workers{1};
  double seconds = 3;
  bool augment = true;
};

std::unique_ptr<data::Dataset> like_cifar10(const Setting& setting) {
  constexpr std::int64_t kSize = 50'000;
  data::ImageTable table{.image_shape = {3, 32, 32},
                         .num_classes = 10,
                         .normalization = data::cifar10_normalization(),
                         .labels = std::vector<std::uint8_t>(kSize)};
  table.pixels.resize(kSize * 3 * 32 * 32);
  std::uint32_t state = 1;
  for (std::uint8_t& pixel : table.pixels) {
    state = state * 1664525U + 1013904223U;
    pixel = static_cast<std::uint8_t>(state >> 24);
  }
  std::vector<data::Transform> transforms;
  if (setting.augment) {
    transforms = {data::RandomCrop{.height = 32, .width = 32, .padding = 4},
                  data::RandomHorizontalFlip{}};
  }
  transforms.push_back(data::Resize{.height = setting.image_size, .width = setting.image_size});
  return data::map(std::make_unique<data::MemoryDataset>(std::move(table)), std::move(transforms));
}

void measure(const data::Dataset& set, const Setting& setting, std::int64_t workers) {
  data::DataLoader loader(
      set, {.batch_size = setting.batch_size, .drop_remainder = true, .workers = workers});
  data::Batch batch;
  for (int i = 0; i < 3; ++i) loader.next(batch);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t batches = 0;
  std::chrono::duration<double> elapsed{};
  while (elapsed.count() < setting.seconds) {
    if (loader.next(batch)) ++batches;
    elapsed = std::chrono::steady_clock::now() - start;
  }
  const double per_batch = elapsed.count() / static_cast<double>(batches);
  std::printf("%3lld workers  %9.0f images/s  %8.3f ms per batch of %lld\n",
              static_cast<long long>(workers), static_cast<double>(setting.batch_size) / per_batch,
              1000 * per_batch, static_cast<long long>(setting.batch_size));
}

void run(const Setting& setting) {
  const auto set =
      setting.data.empty()
          ? like_cifar10(setting)
          : data::open_dataset(setting.data, data::Split::kTrain,
                               {.image_size = setting.image_size, .augment = setting.augment});
  for (const std::int64_t workers : setting.workers) measure(*set, setting, workers);
}

}  // namespace
}  // namespace mezzo

int main(int argc, char** argv) {
  CLI::App app{"Images per second of the input pipeline"};
  mezzo::Setting setting;
  app.add_option("--data", setting.data, std::string(mezzo::data::kImageSetNames));
  app.add_option("--image-size", setting.image_size, "Height and width")->capture_default_str();
  app.add_option("--batch-size", setting.batch_size, "Images per batch")->capture_default_str();
  app.add_option("--workers", setting.workers, "Worker counts to try; 0: only the calling thread")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seconds", setting.seconds, "Seconds to measure for")->capture_default_str();
  app.add_flag("!--no-augment", setting.augment, "Do not augment images");
  CLI11_PARSE(app, argc, argv);
  try {
    mezzo::run(setting);
    return 0;
  } catch (const mezzo::Error& error) {
    std::fprintf(stderr, "mezzo_loader_bench: %s\n", error.what());
    return 1;
  }
}
