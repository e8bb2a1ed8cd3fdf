// Sees to it that processes that train together end together, over the connections of their
// meeting.
//
// Each process has a thread that says once a second that it lives. Process 0 ends all if one closes
// its connection without having announced its end, or is silent; the others end if process 0 does,
// and process 1 speaks for them.
// A main thread that waits for data that never comes cannot prevent that: the thread ends the
// process itself. What a process computes, and for how long, does not matter, nor does a slow
// network.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mezzo/distributed/meeting.h"

namespace mezzo::distributed {

// Writes the line, if there is one, to standard error, and ends this process with the status, at
// once: nothing that main() or other threads do delays it.
void end_process(int status, const std::string& line);

class Watch {
 public:
  struct Options {
    // Without a word from a process for so long, it counts as lost.
    std::chrono::milliseconds silence = std::chrono::seconds(15);
    std::chrono::milliseconds beat = std::chrono::seconds(1);
    // How long process 0 waits for its own end after another one has failed with a message: all may
    // have failed alike, and process 0 is then about to report it.
    std::chrono::milliseconds own_end = std::chrono::seconds(2);
    // How long a process that has lost process 0 waits for process 1 to say so for all.
    std::chrono::milliseconds second_word = std::chrono::seconds(3);
    // What ends this process. It may return in tests only; the watch is over then.
    std::function<void(int status, const std::string& line)> end = end_process;
  };

  Watch(Meeting meeting, Options options);
  explicit Watch(Meeting meeting) : Watch(std::move(meeting), Options()) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  // Only closes the connections: see leave().
  ~Watch();

  const Participant& self() const { return all_[static_cast<std::size_t>(rank_)]; }

  // Keeps a value for all processes. Throws ArgumentError if it is longer than kLongestPayload.
  void set(const std::string& key, const std::string& value);
  // The value, once some process has set it; none if that takes longer.
  std::optional<std::string> get(const std::string& key, std::chrono::milliseconds patience);

  // Announces the end of this process. With status 0 returns once all processes have announced
  // theirs, because this one's connections may still carry what they wait for. With another status
  // returns at once, and the others end with it, without a word.
  void leave(int status);

  // Returns after this time unless the watch ends this process before.
  void wait_for_end(std::chrono::milliseconds patience);

 private:
  // A process to which there is a connection.
  struct Other {
    int rank = 0;
    Connection connection = {};
    std::chrono::milliseconds silence{0};
    bool has_left = false;
  };
  struct Question {
    int rank = 0;
    std::string key = {};
  };

  bool is_first() const { return rank_ == 0; }
  void run();
  // With the lock:
  void wait_and_hear(std::unique_lock<std::mutex>& lock);
  void hear(Other& other);
  void take(Other& other, const Frame& frame);
  void take_left(Other& other, int status);
  void keep(const std::string& key, const std::string& value);
  void answer(Other& other, const std::string& key);
  void beat(std::chrono::milliseconds elapsed);
  void lose(Other& other, const std::string& reason);
  // Whether it is process 0 that watches, and this process, or the other way round. Nobody watches
  // process 1, of which only the last word is waited for.
  bool is_watched(const Other& other) const { return is_first() || other.rank == 0; }
  void end_all(int status, const std::string& line);
  void end(int status, const std::string& line);
  void end_if_all_have_left();
  void end_watching();
  void send_to_others(FrameKind kind, std::string_view payload = {});
  // Sends what is unsent, and waits for the others to close, so that they read it.
  void see_off(std::chrono::milliseconds patience);
  void wake() const;

  Options options_;
  int rank_;
  std::vector<Participant> all_;
  Handle woken_;  // can be read once somebody has called wake()

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Other> others_;  // process 0 first, unless this is it
  std::map<std::string, std::string> values_;
  std::vector<Question> questions_;  // in process 0, those without an answer yet
  bool has_left_ = false;
  bool all_have_left_ = false;
  bool is_over_ = false;
  // Of a process that has failed with a message.
  std::optional<int> failure_{};
  std::chrono::milliseconds since_failure_{0};
  // Of process 0, for which process 1 speaks, or else this process with this line.
  std::string loss_;
  std::chrono::milliseconds since_loss_{0};
  std::thread thread_;
};

}  // namespace mezzo::distributed
