#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/distributed/launched_group.h"
#include "mezzo/distributed/mpi_library.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kMpi = "distributed";

// By default MPI ends the program on an error; here errors become exceptions.
void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  mpi().MPI_Error_string(code, text, &length);
  fail<DeviceError>(kMpi, call,
                    " failed: ", std::string_view(text, static_cast<std::size_t>(length)),
                    ". See what the launcher reports about the other processes");
}

// Between two looks at an exchange beside the backward pass. A megabyte takes some hundreds of
// microseconds.
constexpr std::chrono::microseconds kPause(20);

// MPI counts in int, and the pieces that are sent are far smaller (average.cpp).
int count_of(std::size_t bytes) { return static_cast<int>(bytes); }

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup(int rank, int size, MPI_Comm comm) : ProcessGroup(rank, size), comm_(comm) {}

 private:
  // The calls that do not block, for all: one process may post an exchange that another one makes
  // at once, and a call that blocks never meets one that does not (MPI 4.0, section 6.12).
  void do_broadcast(std::span<std::byte> bytes) override {
    MPI_Request request = {};
    check(mpi().MPI_Ibcast(bytes.data(), count_of(bytes.size()), mpi().byte, 0, comm_, &request),
          "MPI_Ibcast");
    finish(request);
  }

  void do_all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const int each = count_of(send.size() / static_cast<std::size_t>(size()));
    MPI_Request request = {};
    check(mpi().MPI_Ialltoall(send.data(), each, mpi().byte, receive.data(), each, mpi().byte,
                              comm_, &request),
          "MPI_Ialltoall");
    finish(request);
  }

  void do_all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const int each = count_of(send.size());
    MPI_Request request = {};
    check(mpi().MPI_Iallgather(send.data(), each, mpi().byte, receive.data(), each, mpi().byte,
                               comm_, &request),
          "MPI_Iallgather");
    finish(request);
  }

  // MPI's own waits keep a core busy, which would be taken from the backward pass.
  void finish(MPI_Request& request) const {
    while (should_sleep()) {
      int is_done = 0;
      check(mpi().MPI_Test(&request, &is_done, mpi().ignore_status), "MPI_Test");
      if (is_done != 0) return;
      std::this_thread::sleep_for(kPause);
    }
    check(mpi().MPI_Wait(&request, mpi().ignore_status), "MPI_Wait");
  }

  MPI_Comm comm_;
};

// MPI_Finalize() waits for the other processes, which may wait for data that this one failed to
// send. Only the exit status says whether it failed: exceptions are caught before the program ends.
// A child that a program has forked is not one of the processes.
pid_t owner = 0;
void finish_mpi(int status, void* /*unused*/) {
  if (status == 0 && owner == getpid()) mpi().MPI_Finalize();
}

// The level of threads that MPI allows, which the program may have set up itself.
int allowed_threads() {
  int is_set_up = 0;
  int provided = 0;
  mpi().MPI_Initialized(&is_set_up);
  if (is_set_up != 0) {
    check(mpi().MPI_Query_thread(&provided), "MPI_Query_thread");
    return provided;
  }
  check(mpi().MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
        "MPI_Init_thread");
  owner = getpid();
  on_exit(finish_mpi, nullptr);
  return provided;
}

}  // namespace

bool is_built_with_mpi() { return true; }

std::unique_ptr<ProcessGroup> make_launched_group(int launched) {
  // mezzo's own threads compute, the group has one of its own, and the thread that trains is not
  // always that of main().
  if (allowed_threads() < MPI_THREAD_SERIALIZED) {
    fail<UnsupportedError>(kMpi,
                           "MPI was set up for programs without threads, or cannot do otherwise. "
                           "Call MPI_Init_thread() with MPI_THREAD_SERIALIZED, or use an MPI that "
                           "provides it, such as Debian's Open MPI");
  }
  // One of its own, so that what the program itself sends never meets what is exchanged here.
  MPI_Comm comm = {};
  check(mpi().MPI_Comm_dup(mpi().world, &comm), "MPI_Comm_dup");
  mpi().MPI_Comm_set_errhandler(comm, mpi().errors_return);
  int rank = 0;
  int size = 1;
  check(mpi().MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(mpi().MPI_Comm_size(comm, &size), "MPI_Comm_size");
  // Each would train by itself, and all write the same files.
  if (size != launched) {
    fail<UnsupportedError>(
        kMpi, "the launcher has started ", launched, " processes, and MPI sees ", size,
        ": it belongs to another MPI than the one mezzo was built with. Use that MPI's launcher");
  }
  return std::make_unique<MpiGroup>(rank, size, comm);
}

}  // namespace mezzo::distributed
