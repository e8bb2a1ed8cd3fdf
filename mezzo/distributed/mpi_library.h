// MPI, which is loaded under a launcher.
#pragma once

#include <mpi.h>

// Every function of MPI that is called.
#define MEZZO_MPI_FUNCTIONS(DO) \
  DO(MPI_Comm_dup)              \
  DO(MPI_Comm_rank)             \
  DO(MPI_Comm_set_errhandler)   \
  DO(MPI_Comm_size)             \
  DO(MPI_Error_string)          \
  DO(MPI_Finalize)              \
  DO(MPI_Iallgather)            \
  DO(MPI_Ialltoall)             \
  DO(MPI_Ibcast)                \
  DO(MPI_Init_thread)           \
  DO(MPI_Initialized)           \
  DO(MPI_Query_thread)          \
  DO(MPI_Test)                  \
  DO(MPI_Wait)

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
  MPI_Status* ignore_status = nullptr;
};

// The library that mezzo was built for, loaded by the first thread that asks. Throws DeviceError if
// it is not installed or lacks a function.
const Mpi& mpi();

}  // namespace mezzo::distributed
