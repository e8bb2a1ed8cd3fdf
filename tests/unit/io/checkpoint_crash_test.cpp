// Tests checkpoints when the process dies, or the disk fails, at any call that changes a file.
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/io/file_calls.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/checkpoint_sample.h"
#include "tests/unit/io/child.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr CheckpointOptions kKeepOne{.keep = 1};

// Removes the hook again.
class HookGuard {
 public:
  explicit HookGuard(FileCallHook hook) { set_file_call_hook(std::move(hook)); }
  HookGuard(const HookGuard&) = delete;
  HookGuard& operator=(const HookGuard&) = delete;
  ~HookGuard() { set_file_call_hook({}); }
};

// A folder with checkpoints of steps 10 and 20, which can be restored. Writing one of step 30 that
// keeps only itself makes every kind of call.
class CheckpointCrash : public ::testing::Test {
 protected:
  CheckpointCrash() {
    write_checkpoint(template_.path(), sample_checkpoint(10));
    write_checkpoint(template_.path(), sample_checkpoint(20));
    template_.write("notes.txt", {7});
  }

  // A fresh copy, without the cost of making it durable.
  std::string fresh() const {
    std::filesystem::remove_all(work_.path("run"));
    std::filesystem::copy(template_.path(), work_.path("run"),
                          std::filesystem::copy_options::recursive);
    return work_.path("run");
  }

  // The number of calls for writing one checkpoint.
  std::size_t count_calls() const {
    std::size_t calls = 0;
    const std::string folder = fresh();
    const HookGuard guard([&](const FileCallInfo&) {
      ++calls;
      return 0;
    });
    write_checkpoint(folder, sample_checkpoint(30), kKeepOne);
    return calls;
  }

  // Expects that the old or the new checkpoint is read without a warning, and that further ones can
  // be written. Returns the step.
  static std::int64_t check_and_go_on(const std::string& folder) {
    const FoundCheckpoint found = read_latest_checkpoint(folder);
    const std::int64_t step = found.checkpoint.step;
    EXPECT_THAT(step, AnyOf(20, 30));
    EXPECT_TRUE(same_checkpoint(found.checkpoint, sample_checkpoint(step)));
    EXPECT_THAT(found.damaged, IsEmpty());
    write_checkpoint(folder, sample_checkpoint(40), kKeepOne);
    EXPECT_EQ(read_latest_checkpoint(folder).checkpoint.step, 40);
    EXPECT_THAT(names_in(folder), SizeIs(2)) << "that of step 40, and notes.txt";
    EXPECT_EQ(TempFolder::read(folder + "/notes.txt"), data::Bytes({7}));
    return step;
  }

  TempFolder template_;
  TempFolder work_;
};

// Dies before call `n`, or in the middle of it if it is a write.
FileCallHook die_at(std::size_t n, bool half) {
  return [n, half, count = std::size_t{0}](const FileCallInfo& info) mutable {
    if (count++ < n) return 0;
    if (half && info.call == FileCall::kWrite) {
      const auto part = info.bytes.first(info.bytes.size() / 2);
      static_cast<void>(!::write(info.file, part.data(), part.size()));
    }
    raise(SIGKILL);
    return 0;
  };
}

// Writes the checkpoint of step 30 in a process that dies.
void write_and_die(const std::string& folder, std::size_t n, bool half) {
  message_in_child([&] {
    set_file_call_hook(die_at(n, half));
    write_checkpoint(folder, sample_checkpoint(30), kKeepOne);
  });
}

TEST_F(CheckpointCrash, KilledAtEveryCall) {
  const std::size_t calls = count_calls();
  EXPECT_GT(calls, 25U);
  std::int64_t last = 20;
  for (std::size_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    const std::string folder = fresh();
    write_and_die(folder, n, false);
    const std::int64_t step = check_and_go_on(folder);
    EXPECT_GE(step, last) << "once it is there, it stays";
    last = step;
  }
  EXPECT_EQ(last, 30);
}

TEST_F(CheckpointCrash, KilledInTheMiddleOfEveryWrite) {
  const std::size_t calls = count_calls();
  for (std::size_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    const std::string folder = fresh();
    write_and_die(folder, n, true);
    check_and_go_on(folder);
  }
}

// Makes call `n` fail, and all later ones if `lasting`.
FileCallHook fail_at(std::size_t n, int error, bool lasting) {
  return [=, count = std::size_t{0}](const FileCallInfo&) mutable {
    const std::size_t i = count++;
    return i == n || (lasting && i > n) ? error : 0;
  };
}

// Writes the checkpoint of step 30 while calls fail; true if the write reports success.
bool write_and_fail(const std::string& folder, FileCallHook hook, std::string_view reason) {
  const HookGuard guard(std::move(hook));
  try {
    write_checkpoint(folder, sample_checkpoint(30), kKeepOne);
    return true;
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), StartsWith("[checkpoint] " + folder + "/000003-step-30"));
    EXPECT_THAT(error.what(), HasSubstr(reason));
    return std::string_view(error.what()).find("is written, but") != std::string_view::npos;
  }
}

TEST_F(CheckpointCrash, ACallThatFailsLosesNothing) {
  const std::size_t calls = count_calls();
  std::int64_t failures = 0;
  for (std::size_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    CaughtLog log;
    const std::string folder = fresh();
    const bool written =
        write_and_fail(folder, fail_at(n, ENOSPC, false), "No space left on device. Free some");
    failures += written ? 0 : 1;
    // A failure leaves the folder as it was.
    EXPECT_TRUE(written || names_in(folder) == names_in(template_.path()));
    EXPECT_EQ(check_and_go_on(folder), written ? 30 : 20);
  }
  EXPECT_GT(failures, 10);
}

TEST_F(CheckpointCrash, ADiskThatFailsForGoodLosesNothing) {
  const std::size_t calls = count_calls();
  for (std::size_t n = 0; n < calls; ++n) {
    SCOPED_TRACE(n);
    CaughtLog log;
    const std::string folder = fresh();
    const bool written = write_and_fail(folder, fail_at(n, EROFS, true), "Write to another folder");
    EXPECT_EQ(check_and_go_on(folder), written ? 30 : 20);
  }
}

TEST_F(CheckpointCrash, AnOldOneThatCannotBeRemovedIsAWarning) {
  const std::string folder = fresh();
  CaughtLog log;
  {
    const HookGuard guard(
        [](const FileCallInfo& info) { return info.call == FileCall::kRemove ? EACCES : 0; });
    write_checkpoint(folder, sample_checkpoint(30), kKeepOne);
  }
  ASSERT_THAT(log.lines, SizeIs(2));
  EXPECT_EQ(log.lines[0], "[checkpoint] " + folder +
                              "/000002-step-20: an old checkpoint that cannot be removed: "
                              "Permission denied");
  EXPECT_EQ(check_and_go_on(folder), 30);
}

std::string name_of_call(const FileCallInfo& info, const std::string& folder) {
  constexpr const char* kNames[] = {"create", "write",  "sync",   "sync_folder", "truncate",
                                    "close",  "rename", "remove", "make",        "remove_folder"};
  const std::string path(info.path);
  return std::string(kNames[static_cast<std::size_t>(info.call)]) + " " +
         (path == folder ? "." : path.substr(folder.size() + 1));
}

// In a power failure, anything that is not synchronised may be lost, in any order. So each file is
// synchronised before the manifest is written, the folder before it is renamed, and the name before
// anything is removed.
TEST_F(CheckpointCrash, EverythingIsOnTheDiskBeforeWhatRestsOnIt) {
  const std::string folder = fresh();
  std::vector<std::string> calls;
  const HookGuard guard([&](const FileCallInfo& info) {
    const std::string call = name_of_call(info, folder);
    if (calls.empty() || calls.back() != call) calls.push_back(call);
    return 0;
  });
  write_checkpoint(folder, {.step = 30, .groups = {{"model", {}}}}, kKeepOne);
  const std::string t = "000003-step-30.tmp";
  EXPECT_THAT(calls,
              ElementsAre("make " + t,                                      //
                          "create " + t + "/model.safetensors",             //
                          "write " + t + "/model.safetensors",              //
                          "sync " + t + "/model.safetensors",               //
                          "close " + t + "/model.safetensors",              //
                          "create " + t + "/manifest.json",                 //
                          "write " + t + "/manifest.json",                  //
                          "sync " + t + "/manifest.json",                   //
                          "close " + t + "/manifest.json",                  //
                          "sync_folder " + t,                               //
                          "rename 000003-step-30",                          //
                          "sync_folder .",                                  //
                          "remove 000002-step-20/model.safetensors",        //
                          "remove 000002-step-20/optimizer_2.safetensors",  //
                          "remove 000002-step-20/manifest.json",            //
                          "remove_folder 000002-step-20",                   //
                          "remove 000001-step-10/model.safetensors",        //
                          "remove 000001-step-10/optimizer_2.safetensors",  //
                          "remove 000001-step-10/manifest.json",            //
                          "remove_folder 000001-step-10"));
}

TEST_F(CheckpointCrash, AFullDiskSaysSoAndLosesNothing) {
  const std::string folder = fresh();
  const std::string message = message_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    write_checkpoint(folder, {.groups = {{"model", {{"w", zeros({1000})}}}}}, kKeepOne);
  });
  EXPECT_EQ(message, "[checkpoint] " + folder +
                         "/000003-step-0.tmp/model.safetensors: cannot be written: File too large. "
                         "Free some space or write elsewhere");
  EXPECT_EQ(names_in(folder), names_in(template_.path()));
  EXPECT_EQ(check_and_go_on(folder), 20);
}

TEST_F(CheckpointCrash, AReadOnlyFolderSaysSoAndLosesNothing) {
  const std::string folder = fresh();
  ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
  const std::string message = message_in_child([&] {
    become_nobody();
    write_checkpoint(folder, sample_checkpoint(30), kKeepOne);
  });
  EXPECT_EQ(message, "[checkpoint] " + folder +
                         "/000003-step-30.tmp: cannot be created: Permission denied. Check the "
                         "permissions of the folder");
  chmod(folder.c_str(), 0755);
  EXPECT_EQ(check_and_go_on(folder), 20);
}

}  // namespace
}  // namespace mezzo::io
