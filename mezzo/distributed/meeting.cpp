#include "mezzo/distributed/meeting.h"

#include <array>
#include <utility>

#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/meeting_roles.h"

namespace mezzo::distributed {
namespace {

// All others are there, and nobody is watched meanwhile.
constexpr std::chrono::seconds kSecondPatience(2);

// The others meet once more, at process 1, as if it were process 0 and the run had one process
// less. It is no failure if they do not find it.
void meet_at_second(const Launch& launch, Handle listener, Meeting& meeting) {
  const Participant& second = meeting.all[1];
  const Launch again = {.rank = launch.rank - 1,
                        .size = launch.size - 1,
                        .address = second.address,
                        .port = second.port,
                        .run = launch.run + "/second"};
  try {
    Meeting others = again.rank == 0 ? receive_all(again, std::move(listener), kSecondPatience)
                                     : join_first(again, 0, kSecondPatience);
    for (Link& link : others.links) {
      meeting.links.push_back({link.rank + 1, std::move(link.connection)});
    }
  } catch (const Error&) {
  } catch (const EndedByFirst&) {
  }
}

}  // namespace

Participant this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return {.host = host.data(), .pid = static_cast<int>(getpid())};
}

std::string name_of(const Meeting& meeting, int rank) {
  const Participant& process = meeting.all.at(static_cast<std::size_t>(rank));
  return concat("process ", rank, " of ", meeting.all.size(), " (host ", process.host, ", pid ",
                process.pid, ")");
}

Meeting meet_all(const Launch& launch, std::chrono::milliseconds patience) {
  if (launch.rank == 0) return receive_all(launch, listen_as_first(launch), patience);
  Handle listener;
  if (launch.rank == 1 && launch.size > 2) listener = listen_at(launch.address, 0);
  const int port = listener.is_open() ? port_of(listener) : 0;
  Meeting meeting = join_first(launch, port, patience);
  if (launch.size > 2) meet_at_second(launch, std::move(listener), meeting);
  return meeting;
}

}  // namespace mezzo::distributed
