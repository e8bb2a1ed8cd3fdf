# MEZZO_WITH_MPI: whether processes can train together. By MEZZO_MPI: ON needs an MPI, OFF does without, AUTO
# takes it where it is.
set(MEZZO_MPI AUTO CACHE STRING "Training by several processes: AUTO, ON or OFF")
set_property(CACHE MEZZO_MPI PROPERTY STRINGS AUTO ON OFF)
set(MEZZO_WITH_MPI OFF)
if(NOT MEZZO_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MEZZO_MPI must be AUTO, ON or OFF, it is '${MEZZO_MPI}'")
endif()
if(MEZZO_MPI STREQUAL "OFF")
  return()
endif()
# MPI's old C++ interface, which is not used, would be one more library.
set(MPI_CXX_SKIP_MPICXX ON)
if(MEZZO_MPI STREQUAL "ON")
  find_package(MPI REQUIRED COMPONENTS CXX)
else()
  find_package(MPI QUIET COMPONENTS CXX)
endif()
set(MEZZO_WITH_MPI ${MPI_CXX_FOUND})
