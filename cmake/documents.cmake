# MEZZO_HAS_DOCUMENTS: whether the command writes its manual pages and completions when it is built, into
# MEZZO_DOCUMENTS.
set(MEZZO_DOCUMENTS "${PROJECT_BINARY_DIR}/documents")
set(MEZZO_HAS_DOCUMENTS ON)
if(MEZZO_SANITIZE OR (CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR))
  message(STATUS "Manual pages and completions: no, the command is not run by this build; where it is "
                 "for another machine, CMAKE_CROSSCOMPILING_EMULATOR may name what runs it")
  set(MEZZO_HAS_DOCUMENTS OFF)
endif()

# To be called where mezzo_cli is made.
function(mezzo_write_documents)
  if(MEZZO_HAS_DOCUMENTS)
    add_custom_command(TARGET mezzo_cli POST_BUILD
      COMMAND ${CMAKE_COMMAND} "-DCOMMAND=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:mezzo_cli>"
        "-DFOLDER=${MEZZO_DOCUMENTS}" "-DGZIP=${MEZZO_GZIP}" -P "${PROJECT_SOURCE_DIR}/cmake/write_documents.cmake"
      VERBATIM)
  endif()
endfunction()
