#include "mezzo/data/idx.h"

#include <cstdlib>
#include <initializer_list>
#include <numeric>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/known_sets.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Bytes idx_bytes(const std::vector<std::uint32_t>& sizes, const Bytes& contents,
                std::uint8_t type = 0x08) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(size >> shift));
    }
  }
  bytes.insert(bytes.end(), contents.begin(), contents.end());
  return bytes;
}

Bytes counting(std::size_t count) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return bytes;
}

std::string idx_error(const std::string& path, std::size_t rank) {
  return message_of<FileError>([&] { read_idx(path, rank); });
}

TEST(Idx, ReadsWhatWasWrittenPlainAndCompressed) {
  const TempFolder folder;
  // A size of 300 shows the byte order; more than a megabyte is read in pieces.
  Bytes contents = counting(std::size_t{300} * 70 * 60);
  const Bytes bytes = idx_bytes({300, 70, 60}, contents);
  for (const std::string& path : {folder.write("plain", bytes), folder.write_gz("x.gz", bytes)}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_EQ(array.shape, Shape({300, 70, 60}));
    EXPECT_EQ(array.bytes, contents);
  }
}

TEST(Idx, MissingFilesAndFoldersAreNamed) {
  const TempFolder folder;
  EXPECT_EQ(
      idx_error(folder.path("none"), 1),
      "[idx] " + folder.path("none") +
          ": cannot be opened: No such file or directory. Check the path and its permissions");
  EXPECT_THAT(idx_error(folder.path(), 1), HasSubstr("not a regular file"));
}

TEST(Idx, WrongMagicTypeAndRankAreToldApart) {
  const TempFolder folder;
  EXPECT_THAT(idx_error(folder.write("text", {'H', 'e', 'l', 'l', 'o'}), 3),
              AllOf(HasSubstr("not an IDX file"), HasSubstr("48 65 6c 6c"),
                    HasSubstr("expected 00 00 08 03")));
  EXPECT_THAT(idx_error(folder.write("type", idx_bytes({2}, counting(8), 0x0D)), 1),
              HasSubstr("elements are of type 32-bit float, expected unsigned byte"));
  EXPECT_THAT(idx_error(folder.write("what", idx_bytes({2}, counting(8), 0x77)), 1),
              HasSubstr("not an IDX file"));
  EXPECT_THAT(idx_error(folder.write("rank", idx_bytes({2}, counting(2))), 3),
              HasSubstr("the array has 1 dimensions, expected 3"));
}

TEST(Idx, EveryTruncationIsFound) {
  const TempFolder folder;
  const Bytes whole = idx_bytes({2, 2, 3}, counting(12));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THAT(idx_error(folder.write("short", part), 3), HasSubstr("short file")) << length;
    EXPECT_THAT(idx_error(folder.write_gz("short.gz", part), 3), HasSubstr("short file")) << length;
  }
}

TEST(Idx, EveryTruncationOfACompressedFileIsFound) {
  const TempFolder folder;
  const std::string path = folder.write_gz("x.gz", idx_bytes({2, 2, 3}, counting(12)));
  const Bytes whole = TempFolder::read(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    folder.write("x.gz", {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    EXPECT_THROW(read_idx(path, 3), FileError) << length;
  }
}

TEST(Idx, DamagedCompressedDataIsFound) {
  const TempFolder folder;
  const std::string path = folder.write_gz("x.gz", idx_bytes({2, 2, 3}, counting(12)));
  Bytes bytes = TempFolder::read(path);
  bytes[bytes.size() - 6] ^= 1;  // in the checksum
  folder.write("x.gz", bytes);
  EXPECT_THAT(idx_error(path, 3), HasSubstr("cannot be read"));
}

TEST(Idx, TrailingBytesAreFound) {
  const TempFolder folder;
  const Bytes bytes = idx_bytes({3}, counting(4));
  EXPECT_THAT(idx_error(folder.write("long", bytes), 1),
              AllOf(HasSubstr("too long"), HasSubstr("claims 3 bytes"), HasSubstr("has 4")));
  EXPECT_THAT(idx_error(folder.write_gz("long.gz", bytes), 1), HasSubstr("too long"));
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Idx, WhatFollowsCompressedDataIsFound) {
  const TempFolder folder;
  const Bytes packed = TempFolder::read(folder.write_gz("x.gz", idx_bytes({3}, counting(3))));
  const std::string path = folder.write("x.gz", joined({packed, {0, 0, 7}}));
  EXPECT_EQ(idx_error(path, 1), "[idx] " + path +
                                    ": 3 bytes follow the end of the compressed data. Copy or "
                                    "download the file again");
  for (const Bytes& more : {Bytes{0x1F}, Bytes{0x1F, 7}, joined({Bytes(200'000), {1}})}) {
    folder.write("x.gz", joined({packed, more}));
    EXPECT_THAT(idx_error(path, 1), HasSubstr("follow the end of the compressed data"));
  }
  folder.write("x.gz", joined({packed, packed}));
  EXPECT_THAT(idx_error(path, 1), HasSubstr("too long"));
  folder.write("x.gz", joined({packed, {packed.begin(), packed.begin() + 10}}));
  EXPECT_THAT(idx_error(path, 1), HasSubstr("the compressed data has no end"));
}

TEST(Idx, PartsOfACompressedFileAndZerosBehindThemAreLegal) {
  const TempFolder folder;
  const Bytes whole = idx_bytes({3}, counting(3));
  const auto packed = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return TempFolder::read(
        folder.write_gz("part.gz", {whole.begin() + begin, whole.begin() + end}));
  };
  for (const Bytes& zeros : {Bytes(), Bytes(1), Bytes(200'000)}) {
    const std::string path =
        folder.write("x.gz", joined({packed(0, 6), packed(6, 6), packed(6, 11), zeros}));
    EXPECT_EQ(read_idx(path, 1).bytes, counting(3));
  }
}

// The beginning of a part may have any position in the buffer.
TEST(Idx, PartsOfACompressedFileBeginAnywhere) {
  const TempFolder folder;
  Bytes noise(std::size_t{1} << 17);
  Generator random(1);
  for (std::uint8_t& byte : noise) byte = static_cast<std::uint8_t>(random.next());
  const Bytes end = TempFolder::read(folder.write_gz("end.gz", {1, 2, 3}));
  for (std::ptrdiff_t size = (1 << 17) - 80; size < (1 << 17) - 50; ++size) {
    const Bytes contents(noise.begin(), noise.begin() + size);
    const auto claimed = static_cast<std::uint32_t>(size) + 3;
    const Bytes first =
        TempFolder::read(folder.write_gz("first.gz", idx_bytes({claimed}, contents)));
    const std::string path = folder.write("x.gz", joined({first, end}));
    EXPECT_EQ(read_idx(path, 1).bytes, joined({contents, {1, 2, 3}})) << first.size();
  }
}

TEST(Idx, HugeClaimsTakeNoMemory) {
  const TempFolder folder;
  // Allocating 2^48 bytes would end the program or the test machine.
  const Bytes huge = idx_bytes({0x10000, 0x10000, 0x10000}, counting(10));
  EXPECT_THAT(idx_error(folder.write("huge", huge), 3), HasSubstr("claims 281474976710656 bytes"));
  EXPECT_THAT(idx_error(folder.write_gz("huge.gz", huge), 3),
              HasSubstr("claims 281474976710656 bytes"));
  const Bytes overflow = idx_bytes({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, counting(10));
  EXPECT_THAT(idx_error(folder.write("overflow", overflow), 3), HasSubstr("impossible size"));
  // A product that wraps around modulo 2^64 must not pass for a small one.
  const Bytes wrapped = idx_bytes({0x80000000, 0x80000000, 4}, {});
  EXPECT_THAT(idx_error(folder.write("wrapped", wrapped), 3), HasSubstr("impossible size"));
  EXPECT_THAT(idx_error(folder.write("empty", idx_bytes({0}, {})), 1), HasSubstr("empty"));
}

// Writes a set of `images` images of 2x2 and `labels` labels into the folder.
void write_mnist(const TempFolder& folder, const std::string& prefix, std::uint32_t images,
                 const Bytes& labels) {
  folder.write(prefix + "-images-idx3-ubyte",
               idx_bytes({images, 2, 2}, counting(std::size_t{4} * images)));
  folder.write_gz(prefix + "-labels-idx1-ubyte.gz",
                  idx_bytes({static_cast<std::uint32_t>(labels.size())}, labels));
}

TEST(Mnist, ReadsBothSplitsUnderTheStandardNames) {
  const TempFolder folder;
  write_mnist(folder, "train", 3, {7, 0, 9});
  write_mnist(folder, "t10k", 1, {5});
  const auto train = open_mnist(folder.path(), Split::kTrain);
  EXPECT_EQ(train->size(), 3);
  EXPECT_EQ(train->image_shape(), Shape({1, 2, 2}));
  EXPECT_EQ(train->num_classes(), 10);
  EXPECT_EQ(train->normalization(), grey_normalization());
  Generator random;
  Bytes pixels(4);
  EXPECT_EQ(train->read(2, random, pixels), 9);
  EXPECT_EQ(pixels, Bytes({8, 9, 10, 11}));
  EXPECT_EQ(open_mnist(folder.path(), Split::kTest)->size(), 1);
}

TEST(Mnist, NamesWhatIsMissing) {
  const TempFolder folder;
  write_mnist(folder, "train", 1, {0});
  const auto error_of = [](const std::string& path, Split split) {
    return message_of<FileError>([&] { open_mnist(path, split); });
  };
  EXPECT_EQ(error_of(folder.path("none"), Split::kTrain),
            "[idx] " + folder.path("none") + ": there is no such folder. Check the path");
  EXPECT_THAT(error_of(folder.path(), Split::kTest),
              AllOf(StartsWith("[idx] " + folder.path("t10k-images-idx3-ubyte")),
                    HasSubstr("no such file, nor t10k-images-idx3-ubyte.gz")));
}

TEST(Mnist, LabelsMustFitTheImages) {
  const TempFolder folder;
  const auto train_error = [&] {
    return message_of<FileError>([&] { open_mnist(folder.path(), Split::kTrain); });
  };
  write_mnist(folder, "train", 3, {7, 10, 9});
  EXPECT_THAT(train_error(), AllOf(StartsWith("[idx] " + folder.path("train-labels")),
                                   HasSubstr("label 1 is out of range: 10, expected 0 to 9")));
  write_mnist(folder, "train", 3, {7, 1});
  EXPECT_THAT(train_error(), HasSubstr("the counts differ: 2 labels, but 3 images"));
}

TEST(Mnist, RealSet) {
  const char* root = std::getenv("MEZZO_TEST_DATA");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr || !std::filesystem::is_directory(std::string(root) + "/mnist10k")) {
    GTEST_SKIP() << "MEZZO_TEST_DATA names no folder with mnist10k: no real MNIST to read";
  }
  const std::string folder = std::string(root) + "/mnist10k";
  EXPECT_EQ(open_mnist(folder, Split::kTrain)->size(), 8000);
  const auto test = open_mnist(folder, Split::kTest);
  EXPECT_EQ(test->size(), 2000);
  EXPECT_EQ(test->image_shape(), Shape({1, 28, 28}));
  double sum = 0;
  Generator random;
  Bytes pixels(784);
  for (std::int64_t i = 0; i < test->size(); ++i) {
    test->read(i, random, pixels);
    sum = std::accumulate(pixels.begin(), pixels.end(), sum);
  }
  EXPECT_NEAR(sum / (2000 * 784 * 255.0), 0.1307, 0.005);
}

TEST(OpenMnist, NamesTheClassesOfFashionMnistAlone) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";  // of Debian's package
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  for (const Split split : {Split::kTrain, Split::kTest}) {
    EXPECT_THAT(open_mnist(folder, split)->class_names(),
                ElementsAre("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal",
                            "Shirt", "Sneaker", "Bag", "Ankle boot"));
  }
}

TEST(KnownClassNames, AreOfNoOtherLabels) {
  // The numbers of images in Fashion-MNIST, and another one.
  for (const std::size_t count : {60'000, 10'000, 7}) {
    EXPECT_TRUE(known_class_names(Bytes(count, 3)).empty()) << count;
  }
}

}  // namespace
}  // namespace mezzo::data
