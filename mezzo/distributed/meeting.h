// How processes that no MPI has started find each other: process 0 listens at a port that all know,
// and the others connect to it; then they connect to process 1 in the same way. These connections
// stay open: see watch.h.
//
// torchrun's agent listens at MASTER_PORT itself. Then process 0 takes the first free one of the
// kPortsToTry ports after it, and the others look for it there. Before a process says anything, it
// is greeted with the name of the run and the number of its processes, so that none joins another
// run, and none talks to another program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "mezzo/distributed/connection.h"
#include "mezzo/distributed/launch.h"

namespace mezzo::distributed {

inline constexpr int kPortsToTry = 32;

// Who one of the processes is.
struct Participant {
  std::string host = {};
  int pid = 0;
  // Where its host is reached by the others.
  std::string address = {};
  // Of process 1: where those after it connect to it.
  int port = 0;
};

struct Link {
  int rank = 0;  // of the other process
  Connection connection = {};
};

struct Meeting {
  int rank = 0;
  std::vector<Participant> all = {};
  // Process 0 is connected with all. So is process 1, which speaks for the others if process 0 is
  // lost, unless they have not found it at once.
  std::vector<Link> links = {};
};

// Thrown by processes that process 0 has told to end, after it has reported why.
struct EndedByFirst {};

// Returns once all processes have come. Throws Error if that takes longer than `patience`: in
// process 0 with the numbers of those that are missing, in the others if they do not find it. Also
// throws Error if two processes have the same number, or if one was started for another number of
// processes.
Meeting meet_all(const Launch& launch, std::chrono::milliseconds patience);

// "process 2 of 3 (host b, pid 123)".
std::string name_of(const Meeting& meeting, int rank);

}  // namespace mezzo::distributed
