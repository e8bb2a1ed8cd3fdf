# mezzo_warnings: the warnings for mezzo's own code. Link it PRIVATE and only for building, as
# $<BUILD_INTERFACE:mezzo_warnings>, so that no consumer inherits it. -Wconversion is left out:
# conversions between integer widths of sizes, strides and library interfaces are everywhere here,
# and casts to silence it would hide those that matter.
add_library(mezzo_warnings INTERFACE)
target_compile_options(mezzo_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wnon-virtual-dtor>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MEZZO_WERROR}>>:-Werror>)
