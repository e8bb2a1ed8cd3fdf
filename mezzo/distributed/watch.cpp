#include "mezzo/distributed/watch.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "mezzo/core/error.h"

namespace mezzo::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kWatchOp = "distributed";
// Much more than addresses take.
constexpr std::size_t kMostValues = std::size_t{1} << 16;
// For the last words of this process.
constexpr milliseconds kSeeOff(1000);

// Signals are for the threads of the program.
std::thread without_signals(const std::function<void()>& work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(work);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

void end_process(int status, const std::string& line) {
  if (!line.empty()) {
    // A terminal may show a line that is not finished.
    const std::string text = concat(isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", line, "\n");
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    static_cast<void>(written);  // there is nobody else to tell
  }
  _exit(status);
}

Watch::Watch(Meeting meeting, Options options)
    : options_(std::move(options)),
      rank_(meeting.rank),
      all_(std::move(meeting.all)),
      woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!woken_.is_open()) fail<DeviceError>(kWatchOp, "eventfd failed. Too many files are open");
  others_.reserve(meeting.links.size());
  for (Link& link : meeting.links) {
    others_.push_back({.rank = link.rank, .connection = std::move(link.connection)});
  }
  thread_ = without_signals([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  wake();
  thread_.join();
}

void Watch::wake() const {
  const eventfd_t one = 1;
  eventfd_write(woken_.number(), one);
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  auto last = steady_clock::now();
  while (!is_over_) {
    wait_and_hear(lock);
    const auto now = steady_clock::now();
    const auto elapsed = std::chrono::duration_cast<milliseconds>(now - last);
    if (is_over_ || elapsed < options_.beat) continue;
    last = now;
    beat(elapsed);
  }
}

void Watch::wait_and_hear(std::unique_lock<std::mutex>& lock) {
  std::vector<const Connection*> all;
  all.reserve(others_.size());
  for (const Other& other : others_) all.push_back(&other.connection);
  std::vector<pollfd> events = events_of(all, woken_);
  lock.unlock();
  wait_for_any(std::move(events), options_.beat / 2);
  lock.lock();
  eventfd_t count = 0;
  eventfd_read(woken_.number(), &count);
  for (Other& other : others_) {
    if (is_over_) return;
    other.connection.flush();
    hear(other);
  }
}

void Watch::hear(Other& other) {
  if (!other.connection.is_open()) return;
  std::vector<Frame> frames;
  bool is_open = false;
  std::string reason = "its connection was closed";
  try {
    is_open = other.connection.receive(frames);
    if (!frames.empty()) other.silence = milliseconds(0);
    for (const Frame& frame : frames) {
      if (!is_over_) take(other, frame);
    }
  } catch (const Error&) {
    is_open = false;
    reason = "what it sent is no message of this mezzo's";
  }
  if (!is_open && !is_over_) lose(other, reason);
}

void Watch::take(Other& other, const Frame& frame) {
  PayloadReader payload(frame.payload);
  switch (frame.kind) {
    case FrameKind::kSet: {
      const std::string key = payload.text();
      return keep(key, payload.text());
    }
    case FrameKind::kGet: return answer(other, payload.text());
    case FrameKind::kValue: {
      const std::string key = payload.text();
      return keep(key, payload.text());
    }
    case FrameKind::kLeaving: return take_left(other, static_cast<int>(payload.number()));
    case FrameKind::kAllLeft: return end_watching();
    case FrameKind::kEnd:
      if (is_first()) return;
      return end(static_cast<int>(payload.number()), "");
    default: return;  // it lives
  }
}

void Watch::take_left(Other& other, int status) {
  if (!is_first()) return;
  if (status != 0) {
    if (!failure_.has_value()) failure_ = status;
    return;
  }
  other.has_left = true;
  end_if_all_have_left();
}

void Watch::end_watching() {
  all_have_left_ = true;
  changed_.notify_all();
}

void Watch::end_if_all_have_left() {
  if (!is_first() || !has_left_ || all_have_left_) return;
  if (!std::ranges::all_of(others_, &Other::has_left)) return;
  send_to_others(FrameKind::kAllLeft);
  see_off(options_.silence);  // who does not get this would miss process 0
  end_watching();
}

void Watch::keep(const std::string& key, const std::string& value) {
  if (values_.size() >= kMostValues) fail<Error>(kWatchOp, "more values are sent than are kept");
  values_[key] = value;
  changed_.notify_all();
  if (!is_first()) return;
  for (Other& other : others_) {
    const auto is_asked = [&](const Question& question) {
      return question.rank == other.rank && question.key == key;
    };
    if (std::erase_if(questions_, is_asked) > 0) answer(other, key);
  }
}

void Watch::answer(Other& other, const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    if (questions_.size() >= kMostValues) fail<Error>(kWatchOp, "more is asked for than is kept");
    return questions_.push_back({other.rank, key});
  }
  other.connection.send(FrameKind::kValue, PayloadWriter().text(key).text(found->second).bytes());
}

// A process that did not run itself, for it was stopped or its host was busy, has seen less silence
// than time has passed.
void Watch::beat(milliseconds elapsed) {
  send_to_others(FrameKind::kBeat);
  for (Other& other : others_) {
    if (is_over_) return;
    if (other.has_left || !other.connection.is_open() || !is_watched(other)) continue;
    other.silence += std::min(elapsed, 2 * options_.beat);
    if (other.silence <= options_.silence) continue;
    lose(other, concat("it has been silent for ", options_.silence.count() / 1000, " s"));
  }
  if (is_over_) return;
  const milliseconds watched = std::min(elapsed, 2 * options_.beat);
  if (failure_.has_value() && (since_failure_ += watched) > options_.own_end) {
    end_all(*failure_, "");
  } else if (!loss_.empty() && (since_loss_ += watched) > options_.second_word) {
    end(1, loss_);
  }
}

void Watch::lose(Other& other, const std::string& reason) {
  // Who has announced its end, or has failed with a message, may go.
  if (!is_watched(other) || other.has_left || all_have_left_ || failure_.has_value()) {
    return other.connection.close();
  }
  const Participant& process = all_[static_cast<std::size_t>(other.rank)];
  const std::string line =
      concat("mezzo: [", kWatchOp, "] process ", other.rank, " of ", all_.size(), " (host ",
             process.host, ", pid ", process.pid, ") is gone: ", reason,
             ". Resume from the last checkpoint: the other processes have ended");
  const bool second_speaks = rank_ > 1 && others_.size() > 1 && others_[1].connection.is_open();
  // One that is only silent is told, too: it may have stood still, and go on.
  if (!second_speaks) return end_all(1, line);
  other.connection.close();
  loss_ = line;
}

void Watch::end_all(int status, const std::string& line) {
  send_to_others(FrameKind::kEnd,
                 PayloadWriter().number(static_cast<std::uint32_t>(status)).bytes());
  see_off(kSeeOff);
  end(status, line);
}

void Watch::end(int status, const std::string& line) {
  is_over_ = true;
  options_.end(status, line);
  changed_.notify_all();
}

void Watch::send_to_others(FrameKind kind, std::string_view payload) {
  for (Other& other : others_) {
    if (other.connection.is_open()) other.connection.send(kind, payload);
  }
}

// What is unread when a process ends makes the system reset its connections, and the others might
// not get the last words. So this reads until they close.
void Watch::see_off(milliseconds patience) {
  const auto end = steady_clock::now() + patience;
  std::vector<Connection*> open;
  open.reserve(others_.size());
  for (Other& other : others_) open.push_back(&other.connection);
  for (Connection* each : open) {
    if (!each->has_unsent()) each->finish_sending();
  }
  std::vector<Frame> unheard;
  while (!open.empty() && steady_clock::now() < end) {
    wait_for_any(events_of({open.begin(), open.end()}, Handle()), milliseconds(100));
    std::erase_if(open, [&](Connection* each) {
      each->flush();
      try {
        return !each->receive(unheard);
      } catch (const Error&) {
        return true;
      }
    });
    unheard.clear();
  }
}

void Watch::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (is_first()) return keep(key, value);
  others_[0].connection.send(FrameKind::kSet, PayloadWriter().text(key).text(value).bytes());
}

std::optional<std::string> Watch::get(const std::string& key, milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!is_first() && !values_.contains(key)) {
    others_[0].connection.send(FrameKind::kGet, PayloadWriter().text(key).bytes());
    wake();
  }
  const auto is_here = [&] { return is_over_ || values_.contains(key); };
  if (!changed_.wait_for(lock, patience, is_here) || !values_.contains(key)) return std::nullopt;
  return values_[key];
}

void Watch::leave(int status) {
  std::unique_lock lock(mutex_);
  if (is_over_ || has_left_) return;
  has_left_ = true;
  const std::string payload = PayloadWriter().number(static_cast<std::uint32_t>(status)).bytes();
  if (status != 0) {
    is_over_ = true;
    if (is_first()) {
      send_to_others(FrameKind::kEnd, payload);
    } else {
      others_[0].connection.send(FrameKind::kLeaving, payload);
    }
    see_off(kSeeOff);
    return;
  }
  if (!is_first()) others_[0].connection.send(FrameKind::kLeaving, payload);
  end_if_all_have_left();
  wake();
  changed_.wait(lock, [this] { return all_have_left_ || is_over_; });
}

void Watch::wait_for_end(milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return is_over_; });
}

}  // namespace mezzo::distributed
