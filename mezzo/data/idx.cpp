#include "mezzo/data/idx.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/data/byte_reader.h"
#include "mezzo/data/hex_text.h"
#include "mezzo/data/known_sets.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kIdxOp = "idx";
constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr std::size_t kChunk = 1 << 20;

std::string_view type_name(std::uint8_t type) {
  switch (type) {
    case kUnsignedByte: return "unsigned byte";
    case 0x09: return "signed byte";
    case 0x0B: return "16-bit integer";
    case 0x0C: return "32-bit integer";
    case 0x0D: return "32-bit float";
    case 0x0E: return "64-bit float";
    default: return "unknown";
  }
}

void check_magic(const std::string& path, const std::array<std::uint8_t, 4>& magic,
                 std::size_t rank) {
  if (magic[0] != 0 || magic[1] != 0 || type_name(magic[2]) == "unknown") {
    fail<FileError>(kIdxOp, path, ": not an IDX file: it begins with ", hex_text(magic),
                    ", expected 00 00 08 0", rank, ". Check that this is the right file");
  }
  if (magic[2] != kUnsignedByte) {
    fail<FileError>(kIdxOp, path, ": the elements are of type ", type_name(magic[2]),
                    ", expected unsigned byte. Convert the file");
  }
  if (magic[3] != rank) {
    fail<FileError>(kIdxOp, path, ": the array has ", magic[3], " dimensions, expected ", rank,
                    ". Images have 3 and labels 1: check that the files are not mixed up");
  }
}

Shape read_header(ByteReader& reader, std::size_t rank) {
  std::array<std::uint8_t, 4> word{};
  const auto next_word = [&] {
    if (reader.read(word.data(), word.size()) < word.size()) {
      fail<FileError>(kIdxOp, reader.path(), ": short file: it ends within its header of ",
                      4 + 4 * rank, " bytes", kCopyAgain);
    }
  };
  next_word();
  check_magic(reader.path(), word, rank);
  Shape shape;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    next_word();
    shape.push_back(std::int64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3]);
  }
  return shape;
}

// The product of the sizes that a file claims; they may be anything.
std::uint64_t claimed_bytes(const std::string& path, const Shape& shape) {
  std::uint64_t bytes = 1;
  for (const std::int64_t size : shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor == 0) {
      fail<FileError>(kIdxOp, path, ": the array is empty: ", shape, kCopyAgain);
    }
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor) {
      fail<FileError>(kIdxOp, path, ": the header claims an impossible size: ", shape, kCopyAgain);
    }
    bytes *= factor;
  }
  return bytes;
}

// Only plain files have a known size. A false claim is found before memory is allocated for it.
void check_plain_size(const ByteReader& reader, std::uint64_t header, std::uint64_t claimed) {
  if (!reader.is_plain()) return;
  const std::uint64_t size = reader.file_bytes();
  if (size - header == claimed) return;
  fail<FileError>(kIdxOp, reader.path(), ": ", size - header < claimed ? "short file" : "too long",
                  ": the header claims ", claimed, " bytes of data, the file has ", size - header,
                  kCopyAgain);
}

std::vector<std::uint8_t> read_data(ByteReader& reader, std::uint64_t claimed) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < claimed) {
    const std::size_t done = bytes.size();
    bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(claimed, done + kChunk)));
    const std::size_t got = reader.read(bytes.data() + done, bytes.size() - done);
    if (done + got < bytes.size()) {
      fail<FileError>(kIdxOp, reader.path(), ": short file: the header claims ", claimed,
                      " bytes of data, the file has ", done + got, kCopyAgain);
    }
  }
  // Reading on also makes zlib verify the checksum at the end of a compressed file.
  std::uint8_t extra = 0;
  if (reader.read(&extra, 1) != 0) {
    fail<FileError>(kIdxOp, reader.path(), ": too long: more than the ", claimed,
                    " bytes of data that the header claims", kCopyAgain);
  }
  if (reader.ends_early()) {
    fail<FileError>(kIdxOp, reader.path(), ": short file: the compressed data has no end",
                    kCopyAgain);
  }
  return bytes;
}

// The path of that file in `folder`, plain or compressed.
std::string find_file(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail<FileError>(kIdxOp, folder, ": there is no such folder. Check the path");
  }
  const std::string plain = (std::filesystem::path(folder) / name).string();
  for (const char* suffix : {"", ".gz"}) {
    if (std::filesystem::exists(plain + suffix, ignored)) return plain + suffix;
  }
  fail<FileError>(kIdxOp, plain, ": there is no such file, nor ", name,
                  ".gz. An MNIST folder holds train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                  "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte");
}

void check_labels(const std::string& path, const std::vector<std::uint8_t>& labels,
                  std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < classes) continue;
    fail<FileError>(kIdxOp, path, ": label ", i, " is out of range: ", labels[i],
                    ", expected 0 to ", classes - 1, ". Check that this is the right file");
  }
}

}  // namespace

IdxArray read_idx(const std::string& path, std::size_t rank) {
  ByteReader reader(path, kIdxOp);
  IdxArray array;
  array.shape = read_header(reader, rank);
  const std::uint64_t claimed = claimed_bytes(path, array.shape);
  check_plain_size(reader, 4 + 4 * rank, claimed);
  array.bytes = read_data(reader, claimed);
  logging::write(logging::Topic::kData, path, ": ", array.shape, reader.is_plain() ? "" : ", gzip");
  return array;
}

std::unique_ptr<Dataset> open_mnist(const std::string& folder, Split split) {
  constexpr std::int64_t kClasses = 10;
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const std::string image_path = find_file(folder, prefix + "-images-idx3-ubyte");
  const std::string label_path = find_file(folder, prefix + "-labels-idx1-ubyte");
  IdxArray labels = read_idx(label_path, 1);
  check_labels(label_path, labels.bytes, kClasses);
  IdxArray images = read_idx(image_path, 3);
  if (images.shape[0] != labels.shape[0]) {
    fail<FileError>(kIdxOp, label_path, ": the counts differ: ", labels.shape[0], " labels, but ",
                    images.shape[0], " images in ", image_path,
                    ". Check that both files belong to one set");
  }
  ImageTable table;
  table.image_shape = {1, images.shape[1], images.shape[2]};
  table.num_classes = kClasses;
  table.normalization = grey_normalization();
  table.class_names = known_class_names(labels.bytes);
  table.pixels = std::move(images.bytes);
  table.labels = std::move(labels.bytes);
  return std::make_unique<MemoryDataset>(std::move(table));
}

}  // namespace mezzo::data
