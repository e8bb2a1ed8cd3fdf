// How tests start several processes by MPI.
#pragma once

namespace mezzo::cli_tests {

// Works as root and on a single core; communicates only through memory, with calls that containers
// allow.
inline constexpr const char* kLaunch =
    "/usr/bin/env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_btl=self,vader "
    "OMPI_MCA_btl_vader_single_copy_mechanism=none " MEZZO_MPIRUN " --oversubscribe ";

}  // namespace mezzo::cli_tests
