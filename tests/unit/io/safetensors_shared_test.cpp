// Tests tensors with several names: they are stored once, as by the format's Python package.
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/shared_tensors.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/io/safetensors.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/safetensors_bytes.h"

namespace mezzo::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Tensors = std::vector<NamedTensor>;

std::vector<std::string> all_names(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : tensors) names.push_back(entry.name);
  return names;
}

std::string bytes_as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SafetensorsShared, LieInTheFileOnce) {
  const Tensor weight = ones({2, 3});
  const auto bytes =
      serialize_safetensors(Tensors{{"head.weight", weight}, {"b", zeros({1})}, {"embed", weight}});
  const std::string text = bytes_as_text(bytes);
  EXPECT_THAT(text, HasSubstr(R"({"__metadata__":{"format":"pt","head.weight":"embed"},)"
                              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("embed":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]}})"));
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(bytes.size(), 8 + header + 28) << "7 numbers";
}

TEST(SafetensorsShared, ComeBackUnderAllTheirNames) {
  const Tensor weight = ones({2, 3});
  const Tensors written{{"z", weight}, {"c", zeros({2})}, {"a", weight}, {"m", weight}};
  const SafetensorsFile file = parse_safetensors(serialize_safetensors(written));
  EXPECT_THAT(all_names(file.tensors), ElementsAre("a", "m", "z", "c"));
  EXPECT_EQ(file.tensors[0].tensor.impl(), file.tensors[2].tensor.impl());
  EXPECT_THAT(file.metadata, ElementsAre(Pair("format", "pt")));
  EXPECT_EQ(serialize_safetensors(file.tensors), serialize_safetensors(written));
}

// Views of the same memory with other elements or another shape are written in full.
TEST(SafetensorsShared, AreTheSameElementsInTheSameShape) {
  const Tensor all = ones({4});
  const Tensors written{{"all", all},
                        {"all.again", all.detach()},
                        {"first", alias(all, {2}, {1}, 0)},
                        {"square", alias(all, {2, 2}, {2, 1}, 0)},
                        {"last", alias(all, {2}, {1}, 2)},
                        {"equal", ones({4})},
                        {"empty", zeros({0})},
                        {"none", zeros({0})}};
  EXPECT_THAT(first_names(written), ElementsAre(0, 0, 2, 3, 4, 5, 6, 7));
}

// Neither the caller's metadata nor a tensor is lost.
TEST(SafetensorsShared, MetadataOfTheCallersOwnStays) {
  const Tensor weight = ones({2});
  const SafetensorsMetadata metadata{{"b", "noted"}};
  const SafetensorsFile file =
      parse_safetensors(serialize_safetensors(Tensors{{"a", weight}, {"b", weight}}, metadata));
  EXPECT_EQ(file.metadata, metadata);
  EXPECT_THAT(all_names(file.tensors), ElementsAre("a", "b"));
}

// A value may happen to be the name of a tensor.
TEST(SafetensorsShared, MetadataThatLooksLikeANameStays) {
  const Tensor weight = ones({2});
  const SafetensorsMetadata metadata{{"last_layer", "weight"}, {"monitor", "loss"}, {"loss", "x"}};
  const Tensors written{{"weight", weight}, {"x", weight}, {"loss", zeros({1})}};
  const SafetensorsFile file = parse_safetensors(serialize_safetensors(written, metadata));
  EXPECT_EQ(file.metadata, metadata);
  EXPECT_THAT(all_names(file.tensors), ElementsAre("loss", "weight", "x"));
  EXPECT_EQ(serialize_safetensors(file.tensors, file.metadata),
            serialize_safetensors(written, metadata));
}

// In the metadata, that key names the format's origin.
TEST(SafetensorsShared, ATensorCalledFormatIsThere) {
  const Tensor weight = ones({2});
  for (const SafetensorsMetadata& metadata :
       {SafetensorsMetadata{}, default_safetensors_metadata()}) {
    const SafetensorsFile file = parse_safetensors(
        serialize_safetensors(Tensors{{"format", weight}, {"a", weight}}, metadata));
    EXPECT_THAT(all_names(file.tensors), ElementsAre("a", "format"));
    EXPECT_EQ(file.metadata, metadata);
  }
}

TEST(SafetensorsShared, OtherMetadataIsNoName) {
  const auto file = [](const std::string& metadata) {
    return parse_safetensors(file_bytes(R"({"__metadata__":{)" + metadata +
                                            R"(},"pt":{"dtype":"U8","shape":[1],)"
                                            R"("data_offsets":[0,1]}})",
                                        1));
  };
  EXPECT_THAT(all_names(file(R"("format":"pt")").tensors), ElementsAre("pt"));
  EXPECT_THAT(all_names(file(R"("pt":"pt")").tensors), ElementsAre("pt"));
  EXPECT_THAT(all_names(file(R"("__metadata__":"pt")").tensors), ElementsAre("pt"));
  EXPECT_THAT(all_names(file(R"("note":"ptt")").tensors), ElementsAre("pt"));
  EXPECT_THAT(file(R"("note":"ptt")").metadata, ElementsAre(Pair("note", "ptt")));
  EXPECT_THAT(all_names(file(R"("other":"pt")").tensors), ElementsAre("pt", "other"));
  EXPECT_THAT(file(R"("other":"pt")").metadata, IsEmpty());
}

TEST(SafetensorsShared, CheckpointsHaveAllNames) {
  const data::TempFolder folder;
  const Tensor weight = ones({1000});
  Checkpoint checkpoint{.step = 3};
  checkpoint.groups = {{"model", {{"z", weight}, {"a", weight}}}};
  const std::string path = write_checkpoint(folder.path(), checkpoint);
  const Tensors read = read_checkpoint(path).tensors("model");
  EXPECT_THAT(all_names(read), ElementsAre("z", "a"));
  EXPECT_LT(std::filesystem::file_size(path + "/model.safetensors"), 2 * weight.bytes());
}

}  // namespace
}  // namespace mezzo::io
