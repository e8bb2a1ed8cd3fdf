#include "mezzo/data/cifar10.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/io/source.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kCifarOp = "cifar10";
constexpr std::size_t kCifarChannels = 3;
constexpr std::size_t kCifarSide = 32;
constexpr std::size_t kCifarPlane = kCifarSide * kCifarSide;
constexpr std::size_t kCifarImage = kCifarChannels * kCifarPlane;
constexpr std::size_t kRecord = 1 + kCifarImage;
constexpr std::int64_t kCifarClasses = 10;

std::vector<std::string> batch_names(Split split) {
  if (split == Split::kTest) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

// The folder of a split's batches: a folder of their own, or the one of all batches.
std::filesystem::path batch_folder(const std::string& folder, Split split) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail<FileError>(kCifarOp, folder, ": there is no such folder. Check the path");
  }
  const auto own = std::filesystem::path(folder) / (split == Split::kTrain ? "train" : "test");
  return std::filesystem::is_directory(own, ignored) ? own : std::filesystem::path(folder);
}

std::vector<std::filesystem::path> find_batches(const std::string& folder, Split split) {
  const std::filesystem::path parent = batch_folder(folder, split);
  std::vector<std::filesystem::path> paths;
  std::string missing;
  for (const std::string& name : batch_names(split)) {
    std::error_code ignored;
    paths.push_back(parent / name);
    if (std::filesystem::is_regular_file(paths.back(), ignored)) continue;
    if (!missing.empty()) missing += ", ";
    missing += name;
  }
  if (!missing.empty()) {
    fail<FileError>(kCifarOp, parent.string(), ": files are missing: ", missing,
                    ". A CIFAR-10 folder holds train/data_batch_{1..5}.bin and "
                    "test/test_batch.bin, or all of them side by side");
  }
  return paths;
}

std::vector<std::uint8_t> read_records(const std::filesystem::path& path) {
  io::FileSource file(path.string(), kCifarOp);
  if (file.size() == 0 || file.size() % kRecord != 0) {
    fail<FileError>(kCifarOp, file.name(), ": not whole records: ", file.size(),
                    " bytes, expected a multiple of ", kRecord, kCopyAgain);
  }
  std::vector<std::uint8_t> bytes(file.size());
  file.read(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Converts planes of red, green and blue to pixels of three bytes.
void interleave(const std::uint8_t* planes, std::uint8_t* pixels) {
  for (std::size_t i = 0; i < kCifarPlane; ++i) {
    for (std::size_t channel = 0; channel < kCifarChannels; ++channel) {
      pixels[i * kCifarChannels + channel] = planes[channel * kCifarPlane + i];
    }
  }
}

void append_batch(const std::filesystem::path& path, ImageTable& table) {
  const std::vector<std::uint8_t> bytes = read_records(path);
  const std::size_t count = bytes.size() / kRecord;
  const std::size_t first = table.pixels.size();
  table.pixels.resize(first + count * kCifarImage);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t label = bytes[i * kRecord];
    if (label >= kCifarClasses) {
      fail<FileError>(kCifarOp, path.string(), ": label ", i, " is out of range: ", label,
                      ", expected 0 to ", kCifarClasses - 1, ". Check that this is the right file");
    }
    table.labels.push_back(label);
    interleave(&bytes[i * kRecord + 1], &table.pixels[first + i * kCifarImage]);
  }
  logging::write(logging::Topic::kData, path.string(), ": ", count, " images");
}

}  // namespace

std::unique_ptr<Dataset> open_cifar10(const std::string& folder, Split split) {
  ImageTable table;
  table.image_shape = {kCifarChannels, kCifarSide, kCifarSide};
  table.num_classes = kCifarClasses;
  table.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                       "dog",      "frog",       "horse", "ship", "truck"};
  table.normalization = cifar10_normalization();
  for (const std::filesystem::path& path : find_batches(folder, split)) append_batch(path, table);
  return std::make_unique<MemoryDataset>(std::move(table));
}

}  // namespace mezzo::data
