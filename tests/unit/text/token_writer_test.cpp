#include "mezzo/text/token_writer.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/data/temp_folder.h"

namespace mezzo::text {
namespace {

using data::Bytes;

// The header and the tokens, little-endian.
Bytes file_of(std::int32_t magic, std::int32_t version, const std::vector<std::int32_t>& tokens,
              int bytes_of_token) {
  Bytes bytes;
  const auto add = [&](std::int32_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint32_t>(value) >> (8U * i)));
    }
  };
  add(magic, 4);
  add(version, 4);
  add(static_cast<std::int32_t>(tokens.size()), 4);
  bytes.resize(1024);
  for (const std::int32_t token : tokens) add(token, bytes_of_token);
  return bytes;
}

TEST(TokenWriter, WritesTheFilesOfLlmC) {
  const data::TempFolder folder;
  const std::vector<std::int32_t> tokens = {0, 1, 258, 65535};
  for (const std::int64_t vocabulary : {std::int64_t{65536}, std::int64_t{65537}}) {
    TokenWriter writer(folder.path("train.bin"), vocabulary, "test");
    writer.add(std::span(tokens).first(3));
    writer.add(std::span(tokens).subspan(3));
    EXPECT_EQ(writer.count(), 4);
    writer.commit();
    EXPECT_EQ(
        data::TempFolder::read(folder.path("train.bin")),
        vocabulary == 65536 ? file_of(20240520, 1, tokens, 2) : file_of(20240801, 7, tokens, 4));
  }
}

TEST(TokenWriter, LeavesNothingWithoutCommit) {
  const data::TempFolder folder;
  { TokenWriter(folder.path("train.bin"), 10, "test").add(std::vector<std::int32_t>{1, 2}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace mezzo::text
