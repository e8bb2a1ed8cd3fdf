# The library in both forms: `mezzo` is shared where BUILD_SHARED_LIBS says so, and `mezzo_static` is the archive
# of the same objects, each compiled once. Where BUILD_SHARED_LIBS is off, both names are one.
#
# Tests and benchmarks link mezzo_static, for they look at what the shared library does not export.

# While the version begins with 0, another second number is another interface.
set(MEZZO_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(MEZZO_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()

# To be called after all sources and libraries of mezzo are known.
function(mezzo_finish_libraries)
  if(NOT BUILD_SHARED_LIBS)
    add_library(mezzo_static ALIAS mezzo)
    return()
  endif()
  set(map "${PROJECT_SOURCE_DIR}/cmake/mezzo.map")
  # Nobody replaces single functions of the library, so that calls within it need no detour.
  target_compile_options(mezzo PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
  set_target_properties(mezzo PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${MEZZO_SOVERSION} LINK_DEPENDS "${map}")
  # The map says what is exported. One file that hides what several define would hide it for all.
  foreach(target IN ITEMS mezzo mezzo_emulated_card)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default CUDA_VISIBILITY_PRESET default)
    endif()
  endforeach()
  target_link_options(mezzo PRIVATE "LINKER:--version-script=${map}" LINKER:-Bsymbolic-functions)
  if(NOT MEZZO_SANITIZE)  # the run time of sanitizers is in the program
    target_link_options(mezzo PRIVATE LINKER:--no-undefined)
  endif()

  add_library(mezzo_static STATIC $<TARGET_OBJECTS:mezzo>)
  set_target_properties(mezzo_static PROPERTIES OUTPUT_NAME mezzo EXPORT_NAME mezzo LINKER_LANGUAGE CXX)
  mezzo_describe(mezzo_static)
  get_target_property(libraries mezzo LINK_LIBRARIES)
  list(FILTER libraries EXCLUDE REGEX "^::@")  # marks of the folders in which they were named
  target_link_libraries(mezzo_static PRIVATE ${libraries})
  # Objects that mezzo took from another target, which are not its own.
  get_target_property(objects mezzo SOURCES)
  list(FILTER objects INCLUDE REGEX "TARGET_OBJECTS")
  target_sources(mezzo_static PRIVATE ${objects})
endfunction()
