# Fails unless README contains PROGRAM, word for word, as a C++ block.
file(READ ${README} readme)
file(READ ${PROGRAM} program)
string(FIND "${readme}" "```cpp\n${program}```" position)
if(position EQUAL -1)
  message(FATAL_ERROR "README.md does not show ${PROGRAM}")
endif()
