# Fails unless DOCUMENT is the output of `COMMAND ops --markdown`.
execute_process(COMMAND ${COMMAND} ops --markdown OUTPUT_VARIABLE wanted COMMAND_ERROR_IS_FATAL ANY)
file(READ ${DOCUMENT} found)
if(NOT found STREQUAL wanted)
  message(FATAL_ERROR "docs/ops.md is out of date. Run: build/test/bin/mezzo ops --markdown > docs/ops.md")
endif()
