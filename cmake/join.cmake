# Compiling several sources at a time: what they include is read once for all of them, and templates that several use
# are made once. CMake does that for ordinary sources where CMAKE_UNITY_BUILD is set; mezzo_join_vector_sources() does
# it for those that Highway compiles once for each instruction set.
#
# Such a source names itself in HWY_TARGET_INCLUDE and includes hwy/foreach_target.h, which includes it again and
# again. The joined source does so with its own name, which it puts back after its parts; in them foreach_target.h has
# been read, and does nothing.

# Writes a source that joins `parts` and adds it to the target.
function(mezzo_add_joined target name parts)
  set(joined "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
  set(include_self "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${joined}\"\n")
  list(TRANSFORM parts REPLACE ".+" "#include \"\\0\"")
  list(JOIN parts "\n" parts)
  file(CONFIGURE OUTPUT "${joined}" @ONLY
       CONTENT "${include_self}#include <hwy/foreach_target.h>\n${parts}\n${include_self}")
  target_sources(${target} PRIVATE "${joined}")
  set_source_files_properties("${joined}" TARGET_DIRECTORY ${target}
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# Joins the target's vector sources that take a second or two: five at a time, so that several cores have something to
# do. `long_ones` matches those that take longer, which gain nothing.
function(mezzo_join_vector_sources target long_ones)
  set(parts_of_one 5)
  set(few_bytes 7000)
  get_target_property(sources ${target} SOURCES)
  set(parts "")
  set(number 0)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "/kernels/cpu/.*\\.cpp$")
      continue()
    endif()
    file(STRINGS "${source}" foreach_target REGEX "^#include <hwy/foreach_target.h>" LIMIT_COUNT 1)
    if(NOT foreach_target)
      continue()
    endif()
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    file(SIZE "${source}" bytes)
    # Only those of operations: the rooms' sources use the same names for the same things.
    if(bytes GREATER few_bytes OR source MATCHES "${long_ones}" OR NOT source MATCHES "/kernels/cpu/[^/]*$")
      continue()
    endif()
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
    list(APPEND parts "${source}")
    list(LENGTH parts count)
    if(count EQUAL parts_of_one)
      mezzo_add_joined(${target} "vectors_${number}" "${parts}")
      set(parts "")
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  if(parts)
    mezzo_add_joined(${target} "vectors_${number}" "${parts}")
  endif()
endfunction()
