# Fails if the loader would load a library at every start of COMMAND that only some runs use: those of cards and of
# processes that train together. READELF says what it would load.
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${READELF} --wide --dynamic ${COMMAND}
  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^[]*\\[[^]]+\\]" needed "${text}")
if(NOT needed MATCHES "\\[libc\\.")
  message(FATAL_ERROR "${READELF} names no C library among those that ${COMMAND} needs:\n${text}")
endif()
list(FILTER needed INCLUDE REGEX "\\[lib(cublas|cudnn|cuda|nvrtc|nvidia|mpi|open-)")
if(needed)
  message(FATAL_ERROR "${COMMAND} loads these libraries at every start: ${needed}. Have them loaded by who uses them: "
                      "mezzo/core/shared_library.h")
endif()
