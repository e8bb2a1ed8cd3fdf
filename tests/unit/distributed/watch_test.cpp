// Tests that processes end together, whatever happens to one of them.
#include "mezzo/distributed/watch.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/frame.h"
#include "tests/unit/distributed/meetings.h"

namespace mezzo::distributed {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// What has ended a process.
struct Ending {
  int status = -1;
  std::string line = {};
};

class EndingOfOne {
 public:
  void set(int status, const std::string& line) {
    const std::lock_guard lock(mutex_);
    ending_ = {status, line};
    changed_.notify_all();
  }
  // An ending with status -1 if none comes.
  Ending wait(milliseconds patience = test::kPatience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return ending_.has_value(); });
    return ending_.value_or(Ending());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Ending> ending_;
};

// Processes that watch each other; their ends are noted.
class Watches {
 public:
  explicit Watches(int size, milliseconds silence = test::kPatience)
      : silence_(silence), meetings_(test::meetings_of(size)), endings_(meetings_.size()) {
    watches_.resize(meetings_.size());
  }
  // All but one watch.
  void start_but(int silent) {
    for (std::size_t i = 0; i < watches_.size(); ++i) {
      if (static_cast<int>(i) != silent) start(i);
    }
  }
  void start_all() { start_but(-1); }
  void start(std::size_t rank) {
    watches_[rank] = std::make_unique<Watch>(
        std::move(meetings_[rank]),
        Watch::Options{.silence = silence_,
                       .beat = milliseconds(20),
                       .own_end = milliseconds(100),
                       .second_word = milliseconds(2000),
                       .end = [this, rank](int status, const std::string& line) {
                         endings_[rank].set(status, line);
                       }});
  }

  Watch& of(std::size_t rank) { return *watches_[rank]; }
  Ending ending_of(std::size_t rank, milliseconds patience = test::kPatience) {
    return endings_[rank].wait(patience);
  }
  // Closes its connections, as the system does for a process that is killed.
  void kill(std::size_t rank) { watches_[rank].reset(); }
  Meeting& meeting_of(std::size_t rank) { return meetings_[rank]; }

 private:
  milliseconds silence_;
  std::vector<Meeting> meetings_;
  std::vector<EndingOfOne> endings_;
  std::vector<std::unique_ptr<Watch>> watches_;
};

TEST(Watch, ValuesReachAll) {
  Watches watches(3);
  watches.start_all();
  std::optional<std::string> early;
  std::thread waiting([&] { early = watches.of(2).get("later", test::kPatience); });
  watches.of(1).set("key", std::string("of\0one", 6));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(watches.of(i).get("key", test::kPatience), std::string("of\0one", 6)) << i;
  }
  watches.of(0).set("later", "value");
  waiting.join();
  EXPECT_EQ(early, "value");
  EXPECT_EQ(watches.of(1).get("never", milliseconds(50)), std::nullopt);
  EXPECT_EQ(watches.of(0).get("never", milliseconds(50)), std::nullopt);
}

TEST(Watch, OneThatIsGoneIsReportedOnce) {
  Watches watches(3);
  watches.start_all();
  const std::string host = watches.of(0).self().host;
  watches.kill(2);
  const Ending first = watches.ending_of(0);
  EXPECT_EQ(first.status, 1);
  EXPECT_EQ(first.line,
            concat("mezzo: [distributed] process 2 of 3 (host ", host, ", pid ", getpid(),
                   ") is gone: its connection was closed. Resume from the last "
                   "checkpoint: the other processes have ended"));
  const Ending other = watches.ending_of(1);
  EXPECT_EQ(other.status, 1);
  EXPECT_EQ(other.line, "");
}

// Connections stay open if a host is cut off.
TEST(Watch, OneThatIsSilentIsReportedOnce) {
  Watches watches(3, milliseconds(1000));
  watches.start_but(1);
  EXPECT_THAT(watches.ending_of(0).line,
              AllOf(StartsWith("mezzo: [distributed] process 1 of 3 (host "),
                    HasSubstr(") is gone: it has been silent for 1 s. Resume from")));
  watches.start(1);  // it only stood still
  for (const std::size_t rank : {1, 2}) {
    const Ending other = watches.ending_of(rank);
    EXPECT_EQ(other.status, 1);
    EXPECT_EQ(other.line, "");
  }
}

TEST(Watch, TheSecondSpeaksWithoutTheFirst) {
  Watches killed(4);
  killed.start_all();
  killed.kill(0);
  Watches silent(4, milliseconds(1000));
  silent.start_but(0);
  for (Watches* watches : {&killed, &silent}) {
    EXPECT_THAT(watches->ending_of(1).line,
                AllOf(StartsWith("mezzo: [distributed] process 0 of 4 (host "),
                      HasSubstr("last checkpoint: the other processes have ended")));
    for (const std::size_t rank : {2, 3}) {
      const Ending ending = watches->ending_of(rank);
      EXPECT_EQ(ending.status, 1);
      EXPECT_EQ(ending.line, "");
    }
  }
}

TEST(Watch, EachSpeaksForItselfWithoutBoth) {
  Watches watches(4);
  watches.start_but(1);  // it holds its connections, as if its host were cut off
  watches.kill(0);
  for (const std::size_t rank : {2, 3}) {
    EXPECT_THAT(watches.ending_of(rank).line,
                StartsWith("mezzo: [distributed] process 0 of 4 (host "));
  }
}

TEST(Watch, ThoseThatLiveAreNotMissed) {
  Watches watches(3, milliseconds(5000));
  watches.start_all();
  std::this_thread::sleep_for(milliseconds(6000));
  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_EQ(watches.ending_of(rank, milliseconds(0)).status, -1) << rank;
  }
}

TEST(Watch, AllLeaveTogether) {
  Watches watches(3);
  watches.start_all();
  std::vector<std::thread> threads;
  threads.reserve(3);
  std::vector<int> have_left(3);
  for (const std::size_t rank : {2, 0, 1}) {
    // Each waits for the last one.
    EXPECT_EQ(have_left, std::vector<int>(3)) << rank;
    threads.emplace_back([&, rank] {
      watches.of(rank).leave(0);
      have_left[rank] = 1;
      watches.kill(rank);
    });
    if (rank != 1) std::this_thread::sleep_for(milliseconds(100));
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t rank : {0, 1, 2}) {
    EXPECT_EQ(watches.ending_of(rank, milliseconds(0)).status, -1) << rank;
  }
}

TEST(Watch, OneThatDiesWhileOthersLeaveIsReported) {
  Watches watches(3);
  watches.start_all();
  std::thread leaving([&] { watches.of(1).leave(0); });
  std::this_thread::sleep_for(milliseconds(100));
  watches.kill(2);
  EXPECT_THAT(watches.ending_of(0).line, StartsWith("mezzo: [distributed] process 2 of 3"));
  EXPECT_EQ(watches.ending_of(1).status, 1);
  leaving.join();
}

// It has reported its error itself.
TEST(Watch, AFailureIsNotReportedAgain) {
  for (const std::size_t failed : {0, 1}) {
    Watches watches(3);
    watches.start_all();
    watches.of(failed).leave(2);
    watches.kill(failed);
    for (const std::size_t rank : {failed == 0 ? 1U : 0U, 2U}) {
      const Ending ending = watches.ending_of(rank);
      EXPECT_EQ(ending.status, 2) << failed << rank;
      EXPECT_EQ(ending.line, "") << failed << rank;
    }
  }
}

TEST(Watch, NonsenseEndsAll) {
  Watches watches(3);
  watches.start_but(2);
  Connection& connection = watches.meeting_of(2).links[0].connection;
  ASSERT_EQ(write(connection.socket().number(), "nonsense", 8), 8);
  EXPECT_THAT(watches.ending_of(0).line, HasSubstr("what it sent is no message of this mezzo's"));
  EXPECT_EQ(watches.ending_of(1).status, 1);
}

// A main thread that has seen a failed exchange waits for the reason.
TEST(Watch, WaitingForTheEndEndsWithIt) {
  Watches watches(2);
  watches.start_all();
  watches.of(0).wait_for_end(milliseconds(50));
  EXPECT_EQ(watches.ending_of(0, milliseconds(0)).status, -1);
  watches.kill(1);
  watches.of(0).wait_for_end(test::kPatience);
  EXPECT_EQ(watches.ending_of(0).status, 1);
}

}  // namespace
}  // namespace mezzo::distributed
