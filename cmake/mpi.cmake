# MEZZO_WITH_MPI: whether processes can train together. By MEZZO_MPI: ON needs an MPI, OFF does without, AUTO
# takes it where it is. MEZZO_MPI_LIBRARY is then the name by which its library is loaded under a launcher, and
# MEZZO_MPI_FOLDER where it was found: nothing is linked, for MPI's twenty libraries would slow every start.
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
if(NOT MPI_CXX_FOUND)
  message(STATUS "Several processes: no, no MPI was found")
  return()
endif()

# Sets MEZZO_MPI_LIBRARY and MEZZO_MPI_FOLDER by the one of MPI's libraries that has the functions.
function(mezzo_find_mpi_library)
  foreach(library IN LISTS MPI_CXX_LIBRARIES)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env LC_ALL=C "${CMAKE_READELF}" --wide --dynamic --dyn-syms "${library}"
      OUTPUT_VARIABLE text ERROR_QUIET)
    # A number is the section of a function that it has; one that it only calls has UND there.
    if(text MATCHES " DEFAULT +[0-9]+ MPI_Init_thread" AND text MATCHES "soname: \\[([^]]+)\\]")
      set(MEZZO_MPI_LIBRARY "${CMAKE_MATCH_1}" PARENT_SCOPE)
      cmake_path(GET library PARENT_PATH folder)
      set(MEZZO_MPI_FOLDER "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

mezzo_find_mpi_library()
if(MEZZO_MPI_LIBRARY)
  set(MEZZO_WITH_MPI ON)
  message(STATUS "Several processes: by ${MEZZO_MPI_LIBRARY} in ${MEZZO_MPI_FOLDER}, loaded under a launcher")
elseif(MEZZO_MPI STREQUAL "ON")
  message(FATAL_ERROR "MEZZO_MPI is ON, but none of MPI's libraries is a shared one with MPI_Init_thread: "
                      "${MPI_CXX_LIBRARIES}. Use an MPI with a shared library, or set MEZZO_MPI=OFF")
else()
  message(STATUS "Several processes: no, MPI has no shared library: ${MPI_CXX_LIBRARIES}")
endif()
