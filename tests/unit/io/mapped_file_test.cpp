#include "mezzo/io/mapped_file.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/message_of.h"

namespace mezzo::io {
namespace {

using testing::HasSubstr;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const data::TempFolder folder;
  const MappedFile file(folder.write("text", {1, 2, 255}), "op");
  ASSERT_EQ(file.bytes().size(), 3U);
  EXPECT_EQ(file.bytes()[2], std::byte{255});
  EXPECT_EQ(file.path(), folder.path("text"));
}

TEST(MappedFile, MayBeEmptyOrSparseAndLarge) {
  const data::TempFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("empty", {}), "op").bytes().empty());
  // More than the memory of most machines, and nothing of it on the disk.
  constexpr std::uintmax_t kSize = std::uintmax_t{1} << 40;
  std::filesystem::resize_file(folder.write("large", {7}), kSize);
  const MappedFile large(folder.path("large"), "op");
  EXPECT_EQ(large.bytes().size(), kSize);
  EXPECT_EQ(large.bytes().front(), std::byte{7});
  EXPECT_EQ(large.bytes().back(), std::byte{0});
}

TEST(MappedFile, StaysReadableWhenTheNameIsGone) {
  const data::TempFolder folder;
  const MappedFile file(folder.write("text", {4, 5}), "op");
  std::filesystem::remove(folder.path("text"));
  EXPECT_EQ(file.bytes()[1], std::byte{5});
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const data::TempFolder folder;
  EXPECT_THAT(message_of<FileError>([&] { MappedFile(folder.path(), "op"); }),
              HasSubstr("not a regular file. Check the path"));
  EXPECT_THAT(message_of<FileError>([&] { MappedFile(folder.path("none"), "op"); }),
              HasSubstr("cannot be opened: No such file"));
}

}  // namespace
}  // namespace mezzo::io
