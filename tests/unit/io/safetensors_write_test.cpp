#include <filesystem>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/io/safetensors.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/safetensors_bytes.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tensors = std::vector<NamedTensor>;

std::string header_text(const std::vector<std::byte>& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  return {reinterpret_cast<const char*>(bytes.data()) + 8, length};
}

// The row-major contents, byte by byte.
std::vector<std::byte> contents_of(const Tensor& tensor) {
  const Tensor row_major = empty(tensor.shape(), tensor.dtype());
  copy_elements(tensor, row_major);
  const auto* first = static_cast<const std::byte*>(row_major.raw_data());
  return {first, first + row_major.bytes()};
}

// A tensor whose elements all differ as far as the dtype allows.
Tensor counting(const Shape& shape, DType dtype, Format format = Format::kContiguous) {
  const Tensor flat = arange(shape.numel(), dtype);
  const Tensor result = empty(shape, dtype, format);
  copy_elements(alias(flat, shape, strides_for(shape, Format::kContiguous), 0), result);
  return result;
}

void expect_round_trip(const Tensors& tensors) {
  const std::vector<std::byte> bytes = serialize_safetensors(tensors);
  const SafetensorsFile file = parse_safetensors(bytes);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const NamedTensor& written : tensors) {
    const auto read = std::ranges::find(file.tensors, written.name, &NamedTensor::name);
    ASSERT_NE(read, file.tensors.end()) << written.name;
    EXPECT_EQ(concat(read->tensor), concat(written.tensor)) << written.name;
    EXPECT_TRUE(read->tensor.is_dense());
    EXPECT_EQ(contents_of(read->tensor), contents_of(written.tensor)) << written.name;
  }
  EXPECT_EQ(serialize_safetensors(file.tensors), bytes);
}

TEST(SafetensorsWrite, GoldenEmpty) {
  const auto bytes = serialize_safetensors({}, {});
  EXPECT_EQ(bytes, file_bytes("{}      "));
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 8);
}

TEST(SafetensorsWrite, GoldenOneTensorWithoutPadding) {
  const Tensors tensors{{"attn.0", counting({1, 2, 3}, DType::kF32)}};
  auto expected =
      file_bytes(R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})", 24);
  const float values[] = {0, 1, 2, 3, 4, 5};
  std::memcpy(expected.data() + 8 + 64, values, 24);
  EXPECT_EQ(std::to_integer<int>(expected[0]), 0x40);
  EXPECT_EQ(serialize_safetensors(tensors, {}), expected);
}

TEST(SafetensorsWrite, GoldenOneTensorWithSevenSpaces) {
  const Tensors tensors{{"attn0", counting({1, 1, 2, 3}, DType::kF32)}};
  const auto bytes = serialize_safetensors(tensors, {});
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 72);
  EXPECT_EQ(header_text(bytes),
            R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
}

TEST(SafetensorsWrite, MetadataComesFirstAndSaysPytorchByDefault) {
  EXPECT_EQ(header_text(serialize_safetensors({})), R"({"__metadata__":{"format":"pt"}})");
  const Tensors tensors{{"a", zeros({0})}};
  const SafetensorsMetadata metadata{{"step", "3"}, {"note", "\"\n\xc3\xa9"}};
  const auto bytes = serialize_safetensors(tensors, metadata);
  EXPECT_THAT(header_text(bytes),
              HasSubstr("{\"__metadata__\":{\"note\":\"\\\"\\n\xc3\xa9\",\"step\":\"3\"},\"a\":"));
  EXPECT_EQ(parse_safetensors(bytes).metadata, metadata);
}

TEST(SafetensorsWrite, WideDtypesFirstThenByName) {
  Tensors tensors;
  for (const DType dtype : kAllDTypes) {
    tensors.push_back({concat("z.", dtype), zeros({1}, dtype)});
    tensors.push_back({concat("a.", dtype), zeros({1}, dtype)});
  }
  const SafetensorsFile file = parse_safetensors(serialize_safetensors(tensors));
  std::vector<std::string> names;
  for (const NamedTensor& named : file.tensors) names.push_back(named.name);
  EXPECT_THAT(names, ElementsAre("a.i64", "z.i64", "a.f64", "z.f64", "a.f32", "z.f32", "a.i32",
                                 "z.i32", "a.bf16", "z.bf16", "a.f16", "z.f16", "a.e4m3", "z.e4m3",
                                 "a.e5m2", "z.e5m2", "a.u8", "z.u8", "a.bool", "z.bool"));
}

TEST(SafetensorsWrite, EveryDtypeAndRankComesBack) {
  Tensors tensors;
  const Shape shapes[] = {
      {},  {5},      {2, 3}, {2, 3, 4}, {2, 3, 4, 5}, {1, 2, 3, 1, 2}, {2, 1, 2, 2, 1, 3},
      {0}, {3, 0, 2}};
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : shapes) {
      tensors.push_back({concat(dtype, shape), counting(shape, dtype)});
    }
  }
  expect_round_trip(tensors);
}

TEST(SafetensorsWrite, LayoutsAreWrittenInLogicalOrder) {
  const Shape shape{2, 3, 4, 5};
  for (const DType dtype : kAllDTypes) {
    const Tensor plain = counting(shape, dtype);
    const Tensor transposed = alias(plain, {5, 4, 3, 2}, {1, 5, 20, 60}, 0);
    const Tensor part = alias(plain, {2, 2, 2, 2}, {60, 20, 5, 2}, 21);
    const Tensor repeated = alias(plain, {3, 4}, {0, 1}, 1);
    expect_round_trip({{"channels_last", counting(shape, dtype, Format::kChannelsLast)},
                       {"transposed", transposed},
                       {"part", part},
                       {"repeated", repeated}});
    const Tensors channels_last{{"x", counting(shape, dtype, Format::kChannelsLast)}};
    const Tensors row_major{{"x", plain}};
    EXPECT_EQ(serialize_safetensors(channels_last), serialize_safetensors(row_major));
  }
}

TEST(SafetensorsWrite, EveryPatternOf16BitsSurvives) {
  const Tensor bf16 = empty({65536}, DType::kBf16);
  const Tensor f16 = empty({65536}, DType::kF16);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    bf16.mutable_data<BFloat16>()[bits] = BFloat16::from_bits(static_cast<std::uint16_t>(bits));
    f16.mutable_data<Float16>()[bits] = Float16::from_bits(static_cast<std::uint16_t>(bits));
  }
  expect_round_trip({{"bf16", bf16}, {"f16", f16}});
}

TEST(SafetensorsWrite, OddNamesComeBack) {
  Tensors tensors;
  for (const std::string name : {"", "a b", "\"\\/", "\t\n\x01\x7f", "\xf0\x9f\x98\x80"}) {
    tensors.push_back({name, counting({3}, DType::kF32)});
  }
  tensors.push_back({std::string("nul\0nul", 7), counting({3}, DType::kF32)});
  expect_round_trip(tensors);
}

TEST(SafetensorsWrite, RefusesWhatNoFileCanHold) {
  const Tensor x = zeros({2});
  const auto message = [](const Tensors& tensors, const SafetensorsMetadata& metadata = {}) {
    return message_of<ArgumentError>([&] { serialize_safetensors(tensors, metadata); });
  };
  EXPECT_EQ(message({{"w", x}, {"v", x}, {"w", x}}),
            "[safetensors] two tensors are called 'w'. Rename one or leave it out");
  EXPECT_THAT(message({{"__metadata__", x}}), HasSubstr("no tensor can be called __metadata__"));
  EXPECT_THAT(message({{"w", Tensor()}}), HasSubstr("tensor 'w' is undefined"));
  EXPECT_THAT(message({{"\xff", x}}), HasSubstr("name is not UTF-8"));
  EXPECT_THAT(message({}, {{"key", "\xff"}}), HasSubstr("metadata is not UTF-8: 'key'"));
  std::string long_text;
  long_text.resize(100'000'000, 'x');
  EXPECT_THAT(message({}, {{"key", long_text}}), HasSubstr("the header would"));
}

TEST(SafetensorsWrite, FilesHoldTheSameBytes) {
  const TempFolder folder;
  const Tensors tensors{{"w", counting({300, 70}, DType::kF32)},
                        {"steps", counting({}, DType::kI64)},
                        {"c", counting({2, 3, 4, 5}, DType::kBf16, Format::kChannelsLast)}};
  const std::string path = folder.path("model.safetensors");
  write_safetensors(path, tensors);
  const data::Bytes on_disk = TempFolder::read(path);
  const auto bytes = std::as_bytes(std::span(on_disk));
  EXPECT_EQ(std::vector(bytes.begin(), bytes.end()), serialize_safetensors(tensors));
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_EQ(file.metadata, default_safetensors_metadata());
  EXPECT_EQ(serialize_safetensors(file.tensors), serialize_safetensors(tensors));
}

TEST(SafetensorsWrite, AFailureLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  const std::string path = folder.path("model.safetensors");
  write_safetensors(path, Tensors{{"w", zeros({2})}});
  const data::Bytes before = TempFolder::read(path);
  const Tensors twice{{"w", zeros({2})}, {"w", zeros({2})}};
  message_of<ArgumentError>([&] { write_safetensors(path, twice); });
  EXPECT_EQ(TempFolder::read(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  const std::string missing = folder.path("none/model.safetensors");
  EXPECT_EQ(message_of<FileError>([&] { write_safetensors(missing, {}); }),
            "[safetensors] " + missing +
                ": cannot be created: No such file or directory. Check that the folder exists");
}

}  // namespace
}  // namespace mezzo::io
