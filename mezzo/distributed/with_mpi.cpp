#include <cstdlib>
#include <string_view>

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

// MPI counts in int, and the pieces that are sent are far smaller (average.cpp).
int count_of(std::size_t bytes) { return static_cast<int>(bytes); }

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup(int rank, int size) : ProcessGroup(rank, size) {}

  void broadcast(std::span<std::byte> bytes) override {
    check(mpi().MPI_Bcast(bytes.data(), count_of(bytes.size()), mpi().byte, 0, mpi().world),
          "MPI_Bcast");
  }

  void all_to_all(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const int each = count_of(send.size() / static_cast<std::size_t>(size()));
    check(mpi().MPI_Alltoall(send.data(), each, mpi().byte, receive.data(), each, mpi().byte,
                             mpi().world),
          "MPI_Alltoall");
  }

  void all_gather(std::span<const std::byte> send, std::span<std::byte> receive) override {
    const int each = count_of(send.size());
    check(mpi().MPI_Allgather(send.data(), each, mpi().byte, receive.data(), each, mpi().byte,
                              mpi().world),
          "MPI_Allgather");
  }
};

// MPI_Finalize() waits for the other processes, which may wait for data that this one failed to
// send. Only the exit status says whether it failed: exceptions are caught before the program ends.
void finish_mpi(int status, void* /*unused*/) {
  if (status == 0) mpi().MPI_Finalize();
}

}  // namespace

std::unique_ptr<ProcessGroup> make_launched_group(int launched) {
  int is_set_up = 0;
  mpi().MPI_Initialized(&is_set_up);
  if (is_set_up == 0) {
    int provided = 0;
    // mezzo's own threads compute, and the one that trains is not always that of main().
    check(mpi().MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
          "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) {
      fail<UnsupportedError>(kMpi,
                             "this MPI cannot be used in programs with threads. Use one that "
                             "provides MPI_THREAD_SERIALIZED, such as Debian's Open MPI");
    }
    on_exit(finish_mpi, nullptr);
  }
  mpi().MPI_Comm_set_errhandler(mpi().world, mpi().errors_return);
  int rank = 0;
  int size = 1;
  check(mpi().MPI_Comm_rank(mpi().world, &rank), "MPI_Comm_rank");
  check(mpi().MPI_Comm_size(mpi().world, &size), "MPI_Comm_size");
  // Each would train by itself, and all write the same files.
  if (size != launched) {
    fail<UnsupportedError>(
        kMpi, "the launcher has started ", launched, " processes, and MPI sees ", size,
        ": it belongs to another MPI than the one mezzo was built with. Use that MPI's launcher");
  }
  return std::make_unique<MpiGroup>(rank, size);
}

}  // namespace mezzo::distributed
