// MPI, which is loaded under a launcher.
#pragma once

#include <mpi.h>

// Every function of MPI that is called.
#define MEZZO_MPI_FUNCTIONS(DO) \
  DO(MPI_Allgather)             \
  DO(MPI_Alltoall)              \
  DO(MPI_Bcast)                 \
  DO(MPI_Comm_rank)             \
  DO(MPI_Comm_set_errhandler)   \
  DO(MPI_Comm_size)             \
  DO(MPI_Error_string)          \
  DO(MPI_Finalize)              \
  DO(MPI_Init_thread)           \
  DO(MPI_Initialized)

namespace mezzo::distributed {

// These functions, under their own names, and what stands for all processes, for bytes, and for
// errors that are returned: numbers in MPICH, addresses within the library in Open MPI.
struct Mpi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name stands alone
#define MEZZO_MEMBER(name) decltype(&::name) name = nullptr;
  MEZZO_MPI_FUNCTIONS(MEZZO_MEMBER)
#undef MEZZO_MEMBER
  MPI_Comm world = {};
  MPI_Datatype byte = {};
  MPI_Errhandler errors_return = {};
};

// The library that mezzo was built for, loaded by the first thread that asks. Throws DeviceError if
// it is not installed or lacks a function.
const Mpi& mpi();

}  // namespace mezzo::distributed
