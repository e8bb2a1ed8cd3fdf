# PCRE2 as the target PCRE2::8BIT, which is missing afterwards if it cannot be had. mezzo's own build includes this
# file, and installed, those who link the static library.
if(NOT TARGET PCRE2::8BIT)
  find_package(PCRE2 CONFIG QUIET COMPONENTS 8BIT)
  mark_as_advanced(PCRE2_DIR)
endif()
# Debian's package has no files for CMake.
if(NOT TARGET PCRE2::8BIT)
  find_path(MEZZO_PCRE2_INCLUDE pcre2.h)
  find_library(MEZZO_PCRE2_LIBRARY NAMES pcre2-8)
  mark_as_advanced(MEZZO_PCRE2_INCLUDE MEZZO_PCRE2_LIBRARY)
  if(MEZZO_PCRE2_INCLUDE AND MEZZO_PCRE2_LIBRARY)
    add_library(PCRE2::8BIT UNKNOWN IMPORTED)
    set_target_properties(PCRE2::8BIT PROPERTIES IMPORTED_LOCATION "${MEZZO_PCRE2_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${MEZZO_PCRE2_INCLUDE}")
  endif()
endif()
