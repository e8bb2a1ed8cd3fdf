// The other processes of a meeting, which look for process 0.
#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/distributed/meeting_roles.h"

namespace mezzo::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kOtherOp = "distributed";
// For an answer from one port.
constexpr std::chrono::seconds kPortPatience(5);
constexpr milliseconds kSearchPause(100);
// Process 0 may have been started last, and waits as long for others.
constexpr int kLonger = 2;

milliseconds until(MeetingTime end) {
  const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
  return std::max(left, milliseconds(0));
}

// The next frame, unless the connection closes or the time is over before.
std::optional<Frame> next_frame(Connection& connection, MeetingTime end) {
  std::vector<Frame> frames;
  while (true) {
    const bool is_open = connection.receive(frames);
    // Process 0 says one thing at a time until all have come.
    if (!frames.empty()) return std::move(frames.front());
    if (!is_open || until(end).count() == 0) return std::nullopt;
    wait_for_any(events_of({&connection}, Handle()), until(end));
  }
}

class OtherProcess {
 public:
  OtherProcess(const Launch& launch, int own_port, milliseconds patience)
      : launch_(launch),
        own_port_(own_port),
        patience_(patience),
        end_(steady_clock::now() + patience) {}

  Meeting run() {
    Connection connection = find_first();
    const Participant own = this_process();
    connection.send(FrameKind::kHello, PayloadWriter()
                                           .text(kMeetingWord)
                                           .number(static_cast<std::uint32_t>(launch_.size))
                                           .text(launch_.run)
                                           .number(static_cast<std::uint32_t>(launch_.rank))
                                           .text(own.host)
                                           .number(static_cast<std::uint32_t>(own.pid))
                                           .text(own_address(connection.socket()))
                                           .number(static_cast<std::uint32_t>(own_port_))
                                           .bytes());
    Meeting meeting = {.rank = launch_.rank, .all = read_roster(connection)};
    meeting.links.push_back({0, std::move(connection)});
    return meeting;
  }

 private:
  Connection find_first() {
    const int first = launch_.port_is_taken ? launch_.port + 1 : launch_.port;
    const int last = launch_.port_is_taken ? std::min(launch_.port + kPortsToTry, 65535) : first;
    while (until(end_).count() > 0) {
      for (int port = first; port <= last; ++port) {
        Connection connection = try_port(port);
        if (connection.is_open()) return connection;
      }
      std::this_thread::sleep_for(std::min(kSearchPause, until(end_)));
    }
    fail<Error>(kOtherOp, "process ", launch_.rank, " of ", launch_.size,
                " has not found process 0 at ", launch_.address, ", port ", first,
                last > first ? concat(" to ", last) : "", ", within ", patience_.count() / 1000,
                " s: ", reason_,
                ". Start process 0 on that host, with the same MASTER_ADDR and MASTER_PORT");
  }

  // Closed if it is not process 0 that listens there.
  Connection try_port(int port) {
    const MeetingTime end = std::min(end_, steady_clock::now() + kPortPatience);
    Connection connection(connect_to(launch_.address, port, until(end), reason_));
    if (!connection.is_open()) return connection;
    reason_ = "another program listens there";
    try {
      const auto frame = next_frame(connection, end);
      if (frame.has_value() && is_greeting(*frame)) return connection;
    } catch (const ArgumentError&) {
      throw;
    } catch (const Error&) {
      connection.close();  // it is no process of mezzo's
    }
    return {};
  }

  bool is_greeting(const Frame& frame) {
    PayloadReader greeting(frame.payload);
    if (frame.kind != FrameKind::kGreeting || greeting.text() != kMeetingWord) return false;
    const std::uint32_t size = greeting.number();
    if (greeting.text() != launch_.run) {
      reason_ = "another run's process 0 listens there";
      return false;
    }
    check_arg(size == static_cast<std::uint32_t>(launch_.size), kOtherOp, "process 0 at ",
              launch_.address, " is one of ", size, " processes, and process ", launch_.rank,
              " one of ", launch_.size, ". Give all the same WORLD_SIZE");
    return true;
  }

  std::vector<Participant> read_roster(Connection& connection) {
    const auto frame = next_frame(connection, steady_clock::now() + kLonger * patience_);
    if (!frame.has_value()) {
      fail<Error>(
          kOtherOp, "process 0 at ", launch_.address,
          " has ended, or stopped answering, before all had come. See its error message, and "
          "start all again");
    }
    if (frame->kind == FrameKind::kRefused) fail<ArgumentError>(kOtherOp, frame->payload);
    if (frame->kind != FrameKind::kRoster) throw EndedByFirst();
    PayloadReader roster(frame->payload);
    std::vector<Participant> all(std::min<std::size_t>(roster.number(), kLongestPayload));
    for (Participant& process : all) {
      process.host = roster.text();
      process.pid = static_cast<int>(roster.number());
      process.address = roster.text();
      process.port = static_cast<int>(roster.number());
    }
    check_arg(all.size() == static_cast<std::size_t>(launch_.size), kOtherOp, "process 0 counts ",
              all.size(), " processes, and process ", launch_.rank, " counts ", launch_.size,
              ". Give all the same WORLD_SIZE");
    return all;
  }

  const Launch& launch_;
  int own_port_;
  milliseconds patience_;
  MeetingTime end_;
  std::string reason_ = "no answer";  // of the last failure
};

}  // namespace

Meeting join_first(const Launch& launch, int port, milliseconds patience) {
  return OtherProcess(launch, port, patience).run();
}

}  // namespace mezzo::distributed
