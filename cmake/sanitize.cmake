# mezzo_sanitize: the sanitizers listed in MEZZO_SANITIZE, e.g. "address;undefined"; empty if none.
# A finding ends the program, so that a test sees it.
add_library(mezzo_sanitize INTERFACE)
if(MEZZO_SANITIZE)
  foreach(sanitizer IN LISTS MEZZO_SANITIZE)
    if(NOT sanitizer MATCHES "^(address|undefined|leak|thread)$")
      message(FATAL_ERROR "MEZZO_SANITIZE: no sanitizer '${sanitizer}'. "
                          "Known: address, undefined, leak, thread.")
    endif()
  endforeach()
  list(JOIN MEZZO_SANITIZE "," sanitizers)
  set(options -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  if("address" IN_LIST MEZZO_SANITIZE AND NOT MEZZO_FUZZ)
    # Otherwise every access would be checked for null and alignment, which takes up to half of the
    # compile time. A null access ends the program with a report anyway, and so does a misaligned
    # vector. The fuzzers, whose input is arbitrary bytes, have both checks.
    list(APPEND options -fno-sanitize=null,alignment)
  endif()
  target_compile_options(mezzo_sanitize INTERFACE ${options} -fno-omit-frame-pointer)
  target_link_options(mezzo_sanitize INTERFACE ${options})
endif()
