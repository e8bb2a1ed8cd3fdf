# Writes what the command says of itself: cmake -DCOMMAND=mezzo -DFOLDER=folder -P write_documents.cmake
# gives folder/man1/mezzo.1 and those of the subcommands, folder/bash/mezzo and folder/zsh/_mezzo. With -DGZIP=gzip
# pages are compressed, as Debian wants them.
cmake_policy(VERSION 3.25)
list(REMOVE_ITEM COMMAND "")
file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}/man1" "${FOLDER}/bash" "${FOLDER}/zsh")
execute_process(COMMAND ${COMMAND} man --out "${FOLDER}/man1" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMMAND} completion bash OUTPUT_FILE "${FOLDER}/bash/mezzo" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMMAND} completion zsh OUTPUT_FILE "${FOLDER}/zsh/_mezzo" COMMAND_ERROR_IS_FATAL ANY)
if(GZIP)
  file(GLOB pages "${FOLDER}/man1/*.1")
  execute_process(COMMAND "${GZIP}" -9 --no-name ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
