#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/gloo_library.h"
#include "mezzo/distributed/launched_group.h"
#include "mezzo/distributed/meeting.h"
#include "mezzo/distributed/watch.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kGlooOp = "distributed";
// Hosts may start at different times, and queues let them wait.
constexpr std::chrono::minutes kMeetingPatience(5);

// What Gloo's processes tell each other before they are connected, through process 0.
class AddressBook {
 public:
  explicit AddressBook(Watch& watch) : watch_(watch) {}

  MezzoGlooStore store() { return {.self = this, .set = set, .get = get}; }

 private:
  static bool set(void* self, const char* key, const char* bytes, std::size_t count) {
    try {
      static_cast<AddressBook*>(self)->watch_.set(key, std::string(bytes, count));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static const char* get(void* self, const char* key, std::size_t* count) {
    auto& book = *static_cast<AddressBook*>(self);
    auto value = book.watch_.get(key, kMeetingPatience);
    if (!value.has_value()) return nullptr;
    book.last_ = std::move(*value);
    *count = book.last_.size();
    return book.last_.data();
  }

  Watch& watch_;
  std::string last_;
};

// A lost connection is seen by the watch, too, which then ends this process with one message for
// all.
[[noreturn]] void report_after(Watch& watch, std::string_view what, const MezzoGlooError& error) {
  watch.wait_for_end(std::chrono::seconds(watch_seconds() + 5));
  fail<DeviceError>(kGlooOp, what, " failed: ", std::string_view(error.text),
                    ". See whether the other processes have reported an error");
}

class GlooGroup final : public ProcessGroup {
 public:
  GlooGroup(const Launch& launch, MezzoGloo* group, Watch& watch)
      : ProcessGroup(launch.rank, launch.size), group_(group), watch_(watch) {}

 private:
  void do_broadcast(std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    check(gloo().mezzo_gloo_broadcast(group_, bytes.data(), bytes.size(), &error_), "a broadcast");
  }

  void do_all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const std::size_t each = send.size() / static_cast<std::size_t>(size());
    if (each == 0) return;
    check(gloo().mezzo_gloo_all_to_all(group_, send.data(), receive.data(), each, &error_),
          "an exchange of all with all");
  }

  void do_all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    if (send.empty()) return;
    check(gloo().mezzo_gloo_all_gather(group_, send.data(), receive.data(), send.size(), &error_),
          "a gathering");
  }

  void check(bool is_done, std::string_view what) {
    if (!is_done) report_after(watch_, what, error_);
  }

  MezzoGloo* group_;
  Watch& watch_;
  MezzoGlooError error_ = {};
};

// By default a write to a connection whose other end is gone, which Gloo may try, ends the program
// without a word.
void ignore_broken_pipes() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

Meeting meet_or_end(const Launch& launch) {
  try {
    return meet_all(launch, kMeetingPatience);
  } catch (const EndedByFirst&) {
    end_process(1, "");
    throw;  // It is not reached.
  }
}

// Only the exit status says whether a process has failed: exceptions are caught before it ends.
// A child that a program has forked is not one of the processes.
void finish_watch(int status, void* watch) {
  auto& own = *static_cast<Watch*>(watch);
  if (own.self().pid == getpid()) own.leave(status);
}

}  // namespace

std::unique_ptr<ProcessGroup> make_gloo_group(const Launch& launch) {
  Watch::Options options;
  options.silence = std::chrono::seconds(watch_seconds());
  const Gloo& library = gloo();
  ignore_broken_pipes();
  // Both live until the process has ended: the thread of the watch sees that end.
  auto& watch = *new Watch(meet_or_end(launch), options);
  on_exit(finish_watch, &watch);
  AddressBook addresses(watch);
  const MezzoGlooStore store = addresses.store();
  MezzoGlooError error = {};
  MezzoGloo* group = library.mezzo_gloo_connect(
      launch.rank, launch.size, watch.self().address.c_str(),
      static_cast<int>(std::chrono::seconds(kMeetingPatience).count()), &store, &error);
  if (group == nullptr) report_after(watch, "connecting the processes by Gloo", error);
  return std::make_unique<GlooGroup>(launch, group, watch);
}

}  // namespace mezzo::distributed
