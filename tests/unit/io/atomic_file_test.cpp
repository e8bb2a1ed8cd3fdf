#include "mezzo/io/atomic_file.h"

#include <csignal>
#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/child.h"

namespace mezzo::io {
namespace {

using data::Bytes;
using data::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::byte> bytes_of(const Bytes& bytes) { return std::as_bytes(std::span(bytes)); }

std::vector<std::string> files_in(const TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TEST(AtomicFile, AppearsCompleteOrNotAtAll) {
  const TempFolder folder;
  const std::string path = folder.path("x");
  {
    AtomicFile file(path);
    file.write(bytes_of({1, 2}));
    file.write({});
    EXPECT_THAT(files_in(folder), ElementsAre("x.tmp." + std::to_string(getpid())));
    file.write(bytes_of({3}));
    file.commit();
  }
  EXPECT_EQ(TempFolder::read(path), Bytes({1, 2, 3}));
  {
    AtomicFile file(path);
    file.write(bytes_of({4}));
  }
  EXPECT_EQ(TempFolder::read(path), Bytes({1, 2, 3}));
  write_file(path, bytes_of({5}));
  EXPECT_EQ(TempFolder::read(path), Bytes({5}));
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

// What is written after that goes to the end again.
TEST(AtomicFile, BytesCanBeReplaced) {
  const TempFolder folder;
  AtomicFile file(folder.path("x"));
  file.write(bytes_of({1, 2, 3}));
  file.overwrite(1, bytes_of({4}));
  file.write(bytes_of({5}));
  file.commit();
  EXPECT_EQ(TempFolder::read(folder.path("x")), Bytes({1, 4, 3, 5}));
}

TEST(AtomicFile, IsClosedOnceItIsCommitted) {
  const TempFolder folder;
  const std::string path = folder.path("x");
  AtomicFile file(path);
  file.write(bytes_of({1}));
  file.commit();
  const std::string closed =
      "[file] " + path +
      ": commit() has closed the file. Create another AtomicFile to write it again";
  EXPECT_EQ(message_of<ArgumentError>([&] { file.commit(); }), closed);
  EXPECT_EQ(message_of<ArgumentError>([&] { file.write(bytes_of({2})); }), closed);
  EXPECT_EQ(TempFolder::read(path), Bytes({1}));
}

TEST(AtomicFile, WorksWithoutAFolderInThePath) {
  const TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_file("x", bytes_of({1}));
  std::filesystem::current_path(before);
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

TEST(AtomicFile, KeepsThePermissionsOfTheFileItReplaces) {
  const TempFolder folder;
  const std::string path = folder.write("x", {1});
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  write_file(path, bytes_of({2}));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(AtomicFile, RemovesWhatAKilledProcessOfTheSameIdLeft) {
  const TempFolder folder;
  const std::string victim = folder.write("victim", {7});
  const std::string path = folder.path("x");
  std::filesystem::create_symlink(victim, path + ".tmp." + std::to_string(getpid()));
  write_file(path, bytes_of({1}));
  EXPECT_EQ(TempFolder::read(path), Bytes({1}));
  EXPECT_EQ(TempFolder::read(victim), Bytes({7}));
  EXPECT_THAT(files_in(folder), ElementsAre("victim", "x"));
}

TEST(AtomicFile, ReplacesLinksAndLeavesTheirTargets) {
  const TempFolder folder;
  const std::string target = folder.write("target", {7});
  std::filesystem::create_symlink(target, folder.path("link"));
  write_file(folder.path("link"), bytes_of({1}));
  EXPECT_EQ(TempFolder::read(target), Bytes({7}));
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path("link")));
}

// /dev/stdout is such a link, and all programs use it.
TEST(AtomicFile, LinksToWhatIsNoFileStay) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", folder.path("device"));
  std::filesystem::create_symlink("device", folder.path("by_two_links"));
  std::filesystem::create_symlink("pipe", folder.path("to_pipe"));
  std::filesystem::create_symlink(".", folder.path("to_folder"));
  for (const char* name : {"device", "by_two_links", "to_pipe", "to_folder"}) {
    const std::string path = folder.path(name);
    const std::string expected =
        "[file] " + path + ": cannot be replaced: it is not a regular file. Check the path";
    EXPECT_EQ(message_of<FileError>([&] { write_file(path, bytes_of({1})); }), expected);
    EXPECT_EQ(message_of<FileError>([&] { check_writable(path); }), expected);
    EXPECT_TRUE(std::filesystem::is_symlink(path)) << name;
  }
  std::filesystem::create_symlink("nowhere", folder.path("dangling"));
  write_file(folder.path("dangling"), bytes_of({1}));
  EXPECT_EQ(TempFolder::read(folder.path("dangling")), Bytes({1}));
}

// The folder is unchanged afterwards, whether it exists or not.
TEST(AtomicFile, AFolderIsTriedWithoutATrace) {
  const TempFolder folder;
  folder.write("there/file", {1});
  for (const char* name : {"there", "new", "new/in/new/", "there/new"}) {
    EXPECT_NO_THROW(check_folder_writable(folder.path(name))) << name;
    EXPECT_THAT(files_in(folder), ElementsAre("there"));
    EXPECT_FALSE(std::filesystem::exists(folder.path("there/new")));
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path("there/file")));
  for (const char* name : {"there/file", "there/file/new"}) {
    EXPECT_THAT(message_of<FileError>([&] { check_folder_writable(folder.path(name), "op"); }),
                StartsWith(concat("[op] ", folder.path("there/file"))));
  }
  EXPECT_THAT(message_of<FileError>([&] { check_folder_writable("/proc/none", "op"); }),
              StartsWith("[op] /proc/none: cannot be created"));
  // One of the folders cannot be created, and those above it are removed again.
  const std::string long_name(300, 'x');
  EXPECT_THROW(check_folder_writable(folder.path("new/in/" + long_name)), FileError);
  EXPECT_THAT(files_in(folder), ElementsAre("there"));
}

TEST(AtomicFile, MissingFoldersAndOddTargetsAreNamed) {
  const TempFolder folder;
  const std::string path = folder.path("none/x");
  EXPECT_EQ(message_of<FileError>([&] { write_file(path, {}, "checkpoint"); }),
            "[checkpoint] " + path +
                ": cannot be created: No such file or directory. Check that the folder exists");
  EXPECT_EQ(
      message_of<FileError>([&] { write_file(folder.path(), {}); }),
      "[file] " + folder.path() + ": cannot be replaced: it is not a regular file. Check the path");
  EXPECT_THAT(message_of<FileError>([] { write_file("/dev/null", {}); }),
              HasSubstr("not a regular file"));
  EXPECT_THAT(message_of<FileError>([&] { write_file(folder.path(std::string(300, 'x')), {}); }),
              HasSubstr("Choose a shorter name"));
  EXPECT_TRUE(files_in(folder).empty());
}

TEST(AtomicFile, ReadOnlyFoldersAreRefused) {
  const TempFolder folder;
  folder.write("x", {1});
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  const std::string message = message_in_child([&] {
    become_nobody();
    write_file(folder.path("x"), bytes_of({2}));
  });
  chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(message, "[file] " + folder.path("x") +
                         ": cannot be created: Permission denied. Check the permissions of the "
                         "folder");
  EXPECT_EQ(TempFolder::read(folder.path("x")), Bytes({1}));
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

TEST(AtomicFile, AFullDiskLosesNothing) {
  const TempFolder folder;
  const std::string path = folder.write("x", {1});
  const std::string message = message_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    write_file(path, bytes_of(Bytes(5000)));
  });
  EXPECT_EQ(message, "[file] " + path +
                         ": cannot be written: File too large. Free some space or write elsewhere");
  EXPECT_EQ(TempFolder::read(path), Bytes({1}));
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

TEST(AtomicFile, AKilledProcessLosesNothing) {
  const TempFolder folder;
  const std::string path = folder.write("x", {1});
  message_in_child([&] {
    AtomicFile file(path);
    file.write(bytes_of({2}));
    raise(SIGKILL);
  });
  EXPECT_EQ(TempFolder::read(path), Bytes({1}));
  EXPECT_THAT(files_in(folder), ElementsAre("x", StartsWith("x.tmp.")));
}

TEST(AtomicFile, OfTwoWritersAtMostOneCommits) {
  const TempFolder folder;
  const std::string path = folder.path("x");
  {
    AtomicFile first(path);
    AtomicFile second(path);
    first.write(bytes_of({1}));
    second.write(bytes_of({2}));
    EXPECT_THAT(message_of<FileError>([&] { first.commit(); }),
                HasSubstr("Use one writer at a time"));
    second.commit();
  }
  EXPECT_EQ(TempFolder::read(path), Bytes({2}));
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

TEST(AtomicFile, AWriterThatGivesUpLeavesTheOtherItsFile) {
  const TempFolder folder;
  const std::string path = folder.path("x");
  std::optional<AtomicFile> first(std::in_place, path);
  AtomicFile second(path);
  first.reset();
  second.write(bytes_of({2}));
  second.commit();
  EXPECT_EQ(TempFolder::read(path), Bytes({2}));
}

}  // namespace
}  // namespace mezzo::io
