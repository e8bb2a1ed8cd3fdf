#include "mezzo/distributed/mpi_library.h"

#include "mezzo/core/shared_library.h"

namespace mezzo::distributed {
namespace {

// Open MPI opens its parts by name, and those of some versions look for its functions among those
// of the program.
SharedLibrary open_mpi() {
  return SharedLibrary(
      {.op = "distributed",
       .title = "the MPI by which the processes of a launcher train together",
       .name = MEZZO_MPI_LIBRARY,
       .folder = MEZZO_MPI_FOLDER,
       .advice = "Install the MPI that mezzo was built with, name the folder that holds it in "
                 "LD_LIBRARY_PATH, or start one process without a launcher",
       .global = true});
}

// Open MPI's header spells its objects as addresses of variables, through this macro, and variables
// of a library that is not linked have none until it is loaded.
#ifdef OMPI_PREDEFINED_GLOBAL
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, variable) static_cast<type>(library.address_of(#variable))
#endif
#define MEZZO_FIND(function) .function = library.find<decltype(&::function)>(#function),

Mpi load_mpi() {
  const SharedLibrary library = open_mpi();
  return {MEZZO_MPI_FUNCTIONS(MEZZO_FIND).world = MPI_COMM_WORLD, .byte = MPI_BYTE,
          .errors_return = MPI_ERRORS_RETURN, .ignore_status = MPI_STATUS_IGNORE};
}

#undef MEZZO_FIND

}  // namespace

const Mpi& mpi() {
  static const Mpi library = load_mpi();
  return library;
}

}  // namespace mezzo::distributed
