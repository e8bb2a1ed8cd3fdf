#include <gmock/gmock.h>

#include "mezzo/core/allocator.h"
#include "mezzo/core/error.h"
#include "mezzo/io/pytorch_file.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/train/checkpointing.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/pytorch_sample.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::ElementsAre;

std::vector<NamedTensor> tensors_of(const std::string& file) {
  return parse_pytorch(sample::bytes_of(file), "x.pth");
}

// The tensors of a dict of such pushed values, with six f32 from 0 on as storage 0.
std::vector<NamedTensor> of_six(const sample::Pairs& pairs) {
  return tensors_of(sample::file(sample::pickle(sample::dict(pairs)),
                                 {sample::values<float>({0, 1, 2, 3, 4, 5})}));
}

void expect_small(const std::vector<NamedTensor>& tensors) {
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_EQ(tensors[0].name, "layer.weight");
  EXPECT_EQ(tensors[0].tensor.dtype(), DType::kF16);
  EXPECT_EQ(tensors[0].tensor.shape(), Shape({2, 3}));
  EXPECT_TRUE(tensors[0].tensor.is_dense());
  EXPECT_THAT(tensors[0].tensor.to_vector<float>(), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_EQ(tensors[1].name, "mask");
  EXPECT_THAT(tensors[1].tensor.to_vector<bool>(), ElementsAre(true, true));
}

TEST(PytorchRead, StateDict) { expect_small(tensors_of(sample::small_file())); }

TEST(PytorchRead, SixtyFourBitDirectory) {
  expect_small(tensors_of(sample::small_file({.zip64 = true})));
}

TEST(PytorchRead, ArchiveWithComment) {
  expect_small(tensors_of(sample::small_file({.comment = "PK\x05\x06 is no end here"})));
}

TEST(PytorchRead, ArchiveWithoutChecksums) {
  expect_small(tensors_of(sample::small_file({.has_checksums = false})));
}

TEST(PytorchRead, CheckpointGivesItsState) {
  expect_small(tensors_of(sample::checkpoint_file()));
  expect_small(tensors_of(sample::checkpoint_file({.zip64 = true})));
}

TEST(PytorchRead, EveryDtype) {
  const auto one = [](std::string_view type, const std::string& bytes) {
    return tensors_of(sample::file(
        sample::pickle(sample::dict({{"a", sample::tensor(sample::storage(type, "0", 1), {})}})),
        {bytes}))[0]
        .tensor;
  };
  EXPECT_EQ(one("FloatStorage", sample::values<float>({-1.5F})).item(), -1.5);
  EXPECT_EQ(one("DoubleStorage", sample::values<double>({0.1})).item(), 0.1);
  EXPECT_EQ(one("HalfStorage", sample::values<std::uint16_t>({0x3e00})).item(), 1.5);
  EXPECT_EQ(one("BFloat16Storage", sample::values<std::uint16_t>({0x3fc0})).item(), 1.5);
  EXPECT_EQ(one("LongStorage", sample::values<std::int64_t>({-7})).item(), -7);
  EXPECT_EQ(one("IntStorage", sample::values<std::int32_t>({-8})).item(), -8);
  EXPECT_EQ(one("ByteStorage", sample::values<std::uint8_t>({200})).item(), 200);
  EXPECT_EQ(one("BoolStorage", sample::values<std::uint8_t>({1})).item(), 1);
  EXPECT_EQ(one("BFloat16Storage", sample::values<std::uint16_t>({0})).dtype(), DType::kBf16);
}

TEST(PytorchRead, StridesAndOffsets) {
  const std::vector<NamedTensor> read =
      of_six({{"rows", sample::six({2, {2, 2}, {2, 1}})},
              {"columns", sample::six({0, {3, 2}, {1, 3}})},
              {"every_other", sample::six({1, {3}, {2}})},
              {"one", sample::six({5, {}, {}})},
              {"repeated", sample::six({4, {2, 2}, {0, 1}})},
              {"size_one", sample::six({3, {1, 1, 3}, {9, 7, 1}})}});
  EXPECT_THAT(read[0].tensor.to_vector<float>(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(read[1].tensor.to_vector<float>(), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(read[2].tensor.to_vector<float>(), ElementsAre(1, 3, 5));
  EXPECT_THAT(read[3].tensor.to_vector<float>(), ElementsAre(5));
  EXPECT_THAT(read[4].tensor.to_vector<float>(), ElementsAre(4, 5, 4, 5));
  EXPECT_THAT(read[5].tensor.to_vector<float>(), ElementsAre(3, 4, 5));
  for (const NamedTensor& named : read) EXPECT_TRUE(named.tensor.is_dense()) << named.name;
}

TEST(PytorchRead, SameViewOfAStorageIsTheSameTensor) {
  const std::vector<NamedTensor> read =
      of_six({{"a", sample::six({0, {2, 3}, {3, 1}})},
              {"same", sample::six({0, {2, 3}, {3, 1}})},
              {"parameter", sample::parameter(sample::six({0, {2, 3}, {3, 1}}))},
              {"other", sample::six({0, {3, 2}, {2, 1}})}});
  EXPECT_EQ(read[0].tensor.impl(), read[1].tensor.impl());
  EXPECT_EQ(read[0].tensor.impl(), read[2].tensor.impl());
  EXPECT_NE(read[0].tensor.storage().get(), read[3].tensor.storage().get());
}

TEST(PytorchRead, TensorsWithoutElements) {
  const std::vector<NamedTensor> read = tensors_of(sample::file(
      sample::pickle(sample::dict(
          {{"a", sample::tensor(sample::storage("FloatStorage", "0", 0), {0, {0, 3}, {3, 1}})}})),
      {""}));
  EXPECT_EQ(read[0].tensor.shape(), Shape({0, 3}));
  EXPECT_TRUE(tensors_of(sample::file(sample::pickle("}"))).empty());
}

TEST(PytorchRead, LargeStorageIsAtMostTwiceInMemory) {
  constexpr std::int64_t kElements = std::int64_t{1} << 20;
  const std::string storage(kElements * sizeof(float), 'x');
  const auto peak_of = [&](const sample::View& view) {
    const std::string file = sample::file(
        sample::pickle(sample::dict(
            {{"a", sample::tensor(sample::storage("FloatStorage", "0", kElements), view)}})),
        {storage});
    cpu_allocator().reset_peak();
    const std::int64_t before = cpu_allocator().stats().live_bytes;
    tensors_of(file);
    return static_cast<std::size_t>(cpu_allocator().stats().peak_bytes - before);
  };
  EXPECT_LT(peak_of({0, {1024, 1024}, {1024, 1}}), storage.size() + 4096);
  EXPECT_LT(peak_of({0, {1024, 1024}, {1, 1024}}), 2 * storage.size() + 8192);
}

TEST(PytorchRead, StateAmongOtherThings) {
  const std::string state = sample::dict({{"w", sample::six({0, {6}, {1}})}});
  for (const char* const key : {"state_dict", "model"}) {
    const auto read =
        of_six({{"epoch", sample::integer(7)}, {key, state}, {"w2", sample::six({0, {1}, {1}})}});
    ASSERT_EQ(read.size(), 1) << key;
    EXPECT_EQ(read[0].name, "w");
  }
  // A configuration is not the state, whichever key it has.
  const std::string configuration = sample::dict({{"depth", sample::integer(50)}});
  EXPECT_EQ(of_six({{"model", configuration}, {"state_dict", state}}).size(), 1);
  EXPECT_EQ(of_six({{"model", state}, {"state_dict", configuration}}).size(), 1);
  // A tensor may be called so.
  EXPECT_EQ(
      of_six({{"model", sample::six({0, {6}, {1}})}, {"b", sample::six({0, {1}, {1}})}}).size(), 2);
}

TEST(PytorchRead, WeightsAreToldByTheirFirstBytes) {
  const TempFolder folder;
  const std::string file = sample::small_file();
  const std::string path = folder.write("w.safetensors", {file.begin(), file.end()});
  EXPECT_TRUE(is_pytorch_file(path));
  expect_small(read_pytorch(path));
  expect_small(train::read_weights(path));
  write_safetensors(folder.path("w.pth"), tensors_of(file));
  EXPECT_FALSE(is_pytorch_file(folder.path("w.pth")));
  EXPECT_EQ(train::read_weights(folder.path("w.pth")).size(), 2);
  EXPECT_FALSE(is_pytorch_file(folder.path("missing")));
  EXPECT_FALSE(is_pytorch_file(folder.path()));
}

TEST(PytorchRead, LegacyWeightsAreRefusedByTheirReader) {
  const TempFolder folder;
  const std::string start = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::string path = folder.write("w", {start.begin(), start.end()});
  EXPECT_EQ(
      message_of<FileError>([&] { train::read_weights(path); }),
      "[pytorch] " + path +
          ": it is in the format of PyTorch before 1.6. Load it with torch.load() and save it "
          "with torch.save()");
}

}  // namespace
}  // namespace mezzo::io
