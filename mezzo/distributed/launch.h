// What launchers tell the processes that they start, by environment variables.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

namespace mezzo::distributed {

// A variable that holds a number.
struct LaunchNumber {
  const char* name = nullptr;
  int value = 0;
};

// The first of these environment variables that is set. Throws ArgumentError unless its value is a
// whole number from 0 that int can hold.
std::optional<LaunchNumber> launch_number(std::initializer_list<const char*> names);

// How many processes an MPI launcher, or Slurm's srun, says it has started; 1 if none says so.
// Processes that torchrun or a script of one's own has started beneath srun count as started by it.
int launched_by_mpi();

// What processes know of each other that torchrun, a script or a shell has started.
struct Launch {
  int rank = 0;
  int size = 1;
  std::string address = {};  // of the host of process 0
  int port = 0;
  // The port is taken by torchrun itself: process 0 listens at one of those after it.
  bool port_is_taken = false;
  // What tells this run from others whose processes may try the same ports.
  std::string run = {};
};

// Reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. Nothing if none of them is set. Throws
// ArgumentError if only some are set, or if a value is wrong; a single process needs no address.
std::optional<Launch> launched_by_variables();

// How long a process may be silent before it counts as lost: MEZZO_WATCH_SECONDS, by default 15.
// Throws ArgumentError unless it is a whole number from 3 to 86400.
int watch_seconds();

}  // namespace mezzo::distributed
