// Tests how processes find each other, and what those say that do not.
#include "mezzo/distributed/meeting.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/connection.h"
#include "tests/unit/distributed/meetings.h"
#include "tests/unit/message_of.h"

namespace mezzo::distributed {
namespace {

using std::chrono::seconds;
using test::Arrival;
using test::kPatience;
using test::kThisHost;
using testing::HasSubstr;

const std::vector<int> kLinked[] = {{1, 2, 3}, {0, 2, 3}, {0, 1}, {0, 1}};

TEST(Meeting, AllFindEachOther) {
  const std::vector<Meeting> meetings = test::meetings_of(4);
  for (const Meeting& meeting : meetings) {
    ASSERT_EQ(meeting.all.size(), 4U);
    for (const Participant& process : meeting.all) {
      EXPECT_EQ(process.pid, getpid());
      EXPECT_EQ(process.address, kThisHost);
      EXPECT_EQ(process.host, meetings[0].all[0].host);
    }
    std::vector<int> linked;
    for (const Link& link : meeting.links) linked.push_back(link.rank);
    EXPECT_EQ(linked, kLinked[meeting.rank]);
  }
  EXPECT_EQ(name_of(meetings[1], 2),
            concat("process 2 of 4 (host ", meetings[0].all[0].host, ", pid ", getpid(), ")"));
}

TEST(Meeting, ThoseWhoAreMissingAreNamed) {
  std::vector<Launch> launches = test::launches_of(5, test::free_port());
  launches.erase(launches.begin(), launches.begin() + 2);  // processes 4 and 3
  const std::vector<Arrival> arrivals = test::arrive_all(launches, seconds(2));
  EXPECT_TRUE(arrivals[0].was_ended);
  EXPECT_TRUE(arrivals[1].was_ended);
  EXPECT_THAT(arrivals[2].error, HasSubstr("[distributed] of 5 processes 2 did not come within 2 "
                                           "s: 3, 4. Start all with the same MASTER_ADDR"));
}

TEST(Meeting, TheFirstMustBeThere) {
  const int port = test::free_port();
  const Launch launch = {.rank = 1, .size = 2, .address = kThisHost, .port = port};
  EXPECT_THAT(test::arrive(launch, seconds(1)).error,
              HasSubstr(concat("process 1 of 2 has not found process 0 at 127.0.0.1, port ", port,
                               ", within 1 s: Connection refused. Start process 0")));
}

TEST(Meeting, AnAddressIsOne) {
  const Launch launch = {.rank = 1, .size = 2, .address = "no host.invalid", .port = 1};
  EXPECT_THAT(test::arrive(launch, seconds(1)).error,
              HasSubstr("has not found process 0 at no host.invalid, port 1, within 1 s: Name or"));
}

TEST(Meeting, APortIsFree) {
  const Handle taken = listen_at(kThisHost, 0);
  const Launch launch = {.size = 2, .address = kThisHost, .port = port_of(taken)};
  EXPECT_THAT(test::arrive(launch, kPatience).error,
              HasSubstr(concat("process 0 cannot listen at port ", launch.port,
                               ": Address already in use. Set MASTER_PORT")));
}

// The second of the two that is there first takes part; process 2 is missing then.
TEST(Meeting, TwoOfOneNumberAreRefused) {
  std::vector<Launch> launches = test::launches_of(3, test::free_port());
  launches[0].rank = 1;
  const std::vector<Arrival> arrivals = test::arrive_all(launches, seconds(3));
  const std::string& refused = arrivals[arrivals[0].error.empty() ? 1 : 0].error;
  EXPECT_THAT(refused, HasSubstr("[distributed] two processes have RANK 1: process 1 of 3 (host "));
  EXPECT_THAT(arrivals[2].error, HasSubstr("1 did not come within 3 s: 2."));
}

TEST(Meeting, AllCountTheSame) {
  std::vector<Launch> launches = test::launches_of(3, test::free_port());
  launches[0].size = 4;
  const std::vector<Arrival> arrivals = test::arrive_all(launches, seconds(2));
  EXPECT_THAT(arrivals[0].error,
              HasSubstr("process 0 at 127.0.0.1 is one of 3 processes, and process 2 one of 4. "
                        "Give all the same WORLD_SIZE"));
}

// As torchrun's agent does, and another run whose port is the same.
TEST(Meeting, PortsOfOthersArePassedOver) {
  Handle agent = listen_at(kThisHost, 0);
  std::vector<Launch> launches = test::launches_of(2, port_of(agent));
  for (Launch& launch : launches) launch.port_is_taken = true;
  std::vector<Launch> others = launches;
  for (Launch& launch : launches) launch.run = "one/0";
  for (Launch& other : others) other.run = "other/0";
  launches.insert(launches.end(), others.begin(), others.end());
  const std::vector<Arrival> arrivals = test::arrive_all(launches);
  for (const Arrival& arrival : arrivals) {
    EXPECT_EQ(arrival.error, "");
    EXPECT_EQ(arrival.meeting.all.size(), 2U);
  }
}

TEST(Meeting, StrangersDoNotDisturb) {
  const int port = test::free_port();
  std::thread strangers([port] {
    std::string reason;
    std::vector<Connection> connections;
    while (connections.size() < 3) {
      Handle socket = connect_to(kThisHost, port, kPatience, reason);
      if (socket.is_open()) connections.emplace_back(std::move(socket));
    }
    connections[0].send(FrameKind::kHello, "who");
    ASSERT_EQ(write(connections[1].socket().number(), "GET / HTTP/1.1\r\n\r\n", 18), 18);
    const auto arrivals =
        test::arrive_all({{.rank = 1, .size = 2, .address = kThisHost, .port = port}});
    EXPECT_EQ(arrivals[0].error, "");
  });
  const Launch first = {.size = 2, .address = kThisHost, .port = port};
  EXPECT_EQ(test::arrive(first, kPatience).error, "");
  strangers.join();
}

// One that comes and goes before all are there.
TEST(Meeting, NobodyLeavesEarly) {
  const int port = test::free_port();
  std::thread early([port] {
    std::string reason;
    Connection connection;
    while (!connection.is_open()) {
      connection = Connection(connect_to(kThisHost, port, kPatience, reason));
    }
    connection.send(FrameKind::kHello, PayloadWriter()
                                           .text("mezzo meeting 1")
                                           .number(3)
                                           .text("")
                                           .number(2)
                                           .text("away")
                                           .number(77)
                                           .text(kThisHost)
                                           .number(0)
                                           .bytes());
    wait_for_any(events_of({&connection}, Handle()), kPatience);  // for its greeting
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  });
  const Launch first = {.size = 3, .address = kThisHost, .port = port};
  EXPECT_THAT(test::arrive(first, kPatience).error,
              HasSubstr("process 2 of 3 (host away, pid 77) has ended before all had come"));
  early.join();
}

}  // namespace
}  // namespace mezzo::distributed
