// Process 0 of a meeting.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/distributed/meeting_roles.h"

namespace mezzo::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kFirstOp = "distributed";
// Whoever connects and says nothing leaves after this time.
constexpr std::chrono::seconds kGuestPatience(20);
// Those that have not said who they are; more wait until others have left.
constexpr std::size_t kMostGuests = 256;
constexpr milliseconds kLook(200);

// The first of the ports that is free.
Handle listen_after(const Launch& launch) {
  for (int port = launch.port + 1; port <= std::min(launch.port + kPortsToTry, 65535); ++port) {
    try {
      return listen_at(launch.address, port);
    } catch (const DeviceError&) {
      continue;  // somebody else's
    }
  }
  fail<DeviceError>(kFirstOp, "process 0 cannot listen at any of the ", kPortsToTry,
                    " ports after MASTER_PORT, ", launch.port,
                    ", which is torchrun's own. Start torchrun with another --master-port");
}

class FirstProcess {
 public:
  FirstProcess(const Launch& launch, Handle listener, milliseconds patience)
      : launch_(launch), patience_(patience), listener_(std::move(listener)) {
    meeting_.all.resize(static_cast<std::size_t>(launch.size));
    connections_.resize(meeting_.all.size());
    meeting_.all[0] = this_process();
  }

  Meeting run() {
    const MeetingTime end = steady_clock::now() + patience_;
    while (!is_complete()) {
      if (steady_clock::now() > end) end_without(missing());
      look();
    }
    name_addresses();
    send_rosters();
    meeting_.links.reserve(connections_.size());
    for (int rank = 1; rank < launch_.size; ++rank) {
      meeting_.links.push_back({rank, std::move(connections_[static_cast<std::size_t>(rank)])});
    }
    return std::move(meeting_);
  }

 private:
  // One that has connected and not said yet who it is.
  struct Guest {
    Connection connection;
    MeetingTime since;
  };

  bool is_complete() const { return missing().empty(); }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < launch_.size; ++rank) {
      if (!connection_of(rank).is_open()) ranks.push_back(rank);
    }
    return ranks;
  }

  const Connection& connection_of(int rank) const {
    return connections_[static_cast<std::size_t>(rank)];
  }

  void look() {
    std::vector<const Connection*> all;
    all.reserve(guests_.size() + connections_.size());
    for (const Guest& guest : guests_) all.push_back(&guest.connection);
    for (const Connection& each : connections_) all.push_back(&each);
    wait_for_any(events_of(all, guests_.size() < kMostGuests ? listener_ : no_handle_), kLook);
    welcome();
    for (Guest& guest : guests_) hear(guest);
    std::erase_if(guests_, [](const Guest& guest) { return !guest.connection.is_open(); });
    for (int rank = 1; rank < launch_.size; ++rank) check_is_there(rank);
  }

  void welcome() {
    while (guests_.size() < kMostGuests) {
      Handle socket = accept_from(listener_);
      if (!socket.is_open()) return;
      guests_.push_back({Connection(std::move(socket)), steady_clock::now()});
      const auto size = static_cast<std::uint32_t>(launch_.size);
      guests_.back().connection.send(
          FrameKind::kGreeting,
          PayloadWriter().text(kMeetingWord).number(size).text(launch_.run).bytes());
    }
  }

  // Closes the connection unless the guest has become a participant or may still become one.
  void hear(Guest& guest) {
    std::vector<Frame> frames;
    bool stays = false;
    try {
      stays = guest.connection.receive(frames);
      if (!frames.empty()) return take_in(guest, frames.front());
    } catch (const Error&) {
      stays = false;  // it is no process of mezzo's
    }
    if (!stays || steady_clock::now() - guest.since > kGuestPatience) guest.connection.close();
  }

  void take_in(Guest& guest, const Frame& frame) {
    PayloadReader hello(frame.payload);
    const bool is_hello = frame.kind == FrameKind::kHello && hello.text() == kMeetingWord &&
                          hello.number() == static_cast<std::uint32_t>(launch_.size) &&
                          hello.text() == launch_.run;
    if (!is_hello) return guest.connection.close();
    const std::uint32_t rank = hello.number();
    Participant process;
    process.host = hello.text();
    process.pid = static_cast<int>(hello.number());
    process.address = hello.text();
    process.port = static_cast<int>(hello.number());
    if (rank == 0 || rank >= meeting_.all.size()) return guest.connection.close();
    Connection& own = connections_[rank];
    if (own.is_open()) {
      guest.connection.send(
          FrameKind::kRefused,
          concat("two processes have RANK ", rank, ": ", name_of(meeting_, static_cast<int>(rank)),
                 " and one on host ", process.host, " with pid ", process.pid,
                 ". Give each process a RANK of its own, from 0 to ", launch_.size - 1));
      return guest.connection.close();
    }
    meeting_.all[rank] = std::move(process);
    own = std::exchange(guest.connection, Connection());
  }

  // Nobody is replaced: the others would not know.
  void check_is_there(int rank) {
    Connection& own = connections_[static_cast<std::size_t>(rank)];
    std::vector<Frame> frames;
    if (!own.is_open() || own.receive(frames)) return;
    own.close();
    end_others();
    fail<Error>(kFirstOp, name_of(meeting_, rank), " has ended before all had come. See its error ",
                "message, and start all again");
  }

  void end_others() {
    for (Connection& each : connections_) {
      if (each.is_open()) each.send(FrameKind::kEnd, PayloadWriter().number(1).bytes());
      each.finish_sending();
    }
  }

  [[noreturn]] void end_without(const std::vector<int>& ranks) {
    end_others();
    std::string names;
    for (const int rank : ranks) names += concat(names.empty() ? "" : ", ", rank);
    fail<Error>(kFirstOp, "of ", launch_.size, " processes ", ranks.size(), " did not come within ",
                patience_.count() / 1000, " s: ", names,
                ". Start all with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and let their "
                "hosts reach port ",
                port_of(listener_), " of host ", meeting_.all[0].host);
  }

  // A process that came by the host's way to itself is reached by others where process 0 is: by the
  // address at which those on other hosts have found it.
  void name_addresses() {
    std::string first;
    for (int rank = 1; rank < launch_.size; ++rank) {
      const std::string address = own_address(connection_of(rank).socket());
      if (first.empty() || is_loopback(first)) first = address;
    }
    for (Participant& process : meeting_.all) {
      if (process.address.empty() || is_loopback(process.address)) process.address = first;
    }
  }

  void send_rosters() {
    PayloadWriter roster;
    roster.number(static_cast<std::uint32_t>(launch_.size));
    for (const Participant& process : meeting_.all) {
      roster.text(process.host);
      roster.number(static_cast<std::uint32_t>(process.pid));
      roster.text(process.address);
      roster.number(static_cast<std::uint32_t>(process.port));
    }
    for (Connection& each : connections_) {
      if (each.is_open()) each.send(FrameKind::kRoster, roster.bytes());
    }
  }

  const Launch& launch_;
  milliseconds patience_;
  Handle listener_;
  Handle no_handle_;
  std::vector<Guest> guests_;
  std::vector<Connection> connections_;  // by rank, that of process 0 itself closed
  Meeting meeting_;
};

}  // namespace

Handle listen_as_first(const Launch& launch) {
  return launch.port_is_taken ? listen_after(launch) : listen_at(launch.address, launch.port);
}

Meeting receive_all(const Launch& launch, Handle listener, milliseconds patience) {
  return FirstProcess(launch, std::move(listener), patience).run();
}

}  // namespace mezzo::distributed
