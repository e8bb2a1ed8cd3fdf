# MEZZO_WITH_GLOO: whether processes can train together that no MPI has started. By MEZZO_GLOO: ON needs Gloo, OFF
# does without, AUTO takes it where it is, in MEZZO_GLOO_INCLUDE and MEZZO_GLOO_LIBRARY. Only a module is linked
# with it, which such processes load.
set(MEZZO_GLOO AUTO CACHE STRING "Training by processes that no MPI has started: AUTO, ON or OFF")
set_property(CACHE MEZZO_GLOO PROPERTY STRINGS AUTO ON OFF)
set(MEZZO_WITH_GLOO OFF)
if(NOT MEZZO_GLOO MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MEZZO_GLOO must be AUTO, ON or OFF, it is '${MEZZO_GLOO}'")
endif()
if(MEZZO_GLOO STREQUAL "OFF")
  return()
endif()
find_path(MEZZO_GLOO_INCLUDE gloo/rendezvous/context.h DOC "Folder of Gloo's headers")
find_library(MEZZO_GLOO_LIBRARY gloo DOC "Gloo's library")
mark_as_advanced(MEZZO_GLOO_INCLUDE MEZZO_GLOO_LIBRARY)
if(MEZZO_GLOO_INCLUDE AND MEZZO_GLOO_LIBRARY)
  set(MEZZO_WITH_GLOO ON)
  message(STATUS "Several processes without MPI: by ${MEZZO_GLOO_LIBRARY}, loaded by such processes")
elseif(MEZZO_GLOO STREQUAL "ON")
  message(FATAL_ERROR "MEZZO_GLOO is ON, but Gloo was not found: the header gloo/rendezvous/context.h and the library "
                      "gloo. Install it (Debian: libgloo-dev), name its prefix in CMAKE_PREFIX_PATH, or set "
                      "MEZZO_GLOO=OFF")
else()
  message(STATUS "Several processes without MPI: no, Gloo was not found")
endif()
