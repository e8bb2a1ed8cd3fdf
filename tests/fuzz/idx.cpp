// Fuzzes IDX files, plain and compressed, alone and as a data set. The first byte chooses which.
#include "mezzo/data/idx.h"

#include <algorithm>

#include <zlib.h>

#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

constexpr std::string_view kImages = "t10k-images-idx3-ubyte";
constexpr std::string_view kLabels = "t10k-labels-idx1-ubyte";

// Two images of 2x3 pixels, and their labels.
Bytes sound_images() {
  Bytes bytes{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3};
  for (std::uint8_t i = 0; i < 12; ++i) bytes.push_back(i);
  return bytes;
}

Bytes sound_labels() { return {0, 0, 8, 1, 0, 0, 0, 2, 9, 0}; }

Bytes gzip(const Bytes& bytes) {
  constexpr int kGzip = 16;  // added to the window size: gzip's header and checksum
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, bytes.size()));
  Bytes copy = bytes;
  stream.next_in = copy.data();
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "a seed can be compressed");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes after(std::uint8_t kind, const Bytes& file) {
  Bytes bytes(1 + file.size(), kind);
  std::ranges::copy(file, bytes.begin() + 1);
  return bytes;
}

// Opens the set and reads all of it.
void read_set(const Folder& folder) {
  const auto dataset = data::open_mnist(folder.path(), data::Split::kTest);
  Bytes pixels(static_cast<std::size_t>(dataset->image_shape().numel()));
  Generator random(0);
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const std::int64_t label = dataset->read(i, random, pixels);
    require(label >= 0 && label < dataset->num_classes(), "labels are classes");
  }
}

void read_array(const Folder& folder, Input file, std::size_t rank) {
  folder.write("array", file);
  const data::IdxArray array = data::read_idx(folder.path("array"), rank);
  require(array.bytes.size() == static_cast<std::size_t>(array.shape.numel()),
          "an array has the bytes of its shape");
}

}  // namespace

void read(Input input) {
  static const Folder kFolder;
  const std::uint8_t kind = input.empty() ? 0 : input[0];
  const Input file = input.empty() ? input : input.subspan(1);
  if (kind % 4 == 0) return read_array(kFolder, file, 1);
  if (kind % 4 == 1) return read_array(kFolder, file, 3);
  kFolder.write(kImages, kind % 4 == 2 ? file : Input(sound_images()));
  kFolder.write(kLabels, kind % 4 == 3 ? file : Input(sound_labels()));
  read_set(kFolder);
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> files;
  for (const bool packed : {false, true}) {
    const Bytes images = packed ? gzip(sound_images()) : sound_images();
    const Bytes labels = packed ? gzip(sound_labels()) : sound_labels();
    files.insert(files.end(),
                 {after(0, labels), after(1, images), after(2, images), after(3, labels)});
  }
  return files;
}

}  // namespace mezzo::fuzz
