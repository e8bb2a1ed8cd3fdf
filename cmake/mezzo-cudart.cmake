# Installed with builds that have CUDA kernels: mezzo::cudart_static, the CUDA run time that a static library of
# them needs. It is that of the toolkit that built them and lies beside the library, so that who links mezzo needs
# no toolkit. A program that has found a toolkit of its own gets that one's: it must not have two.
find_dependency(Threads)
if(NOT TARGET mezzo::cudart_static)
  if(TARGET CUDA::cudart_static)
    add_library(mezzo::cudart_static INTERFACE IMPORTED)
    set_target_properties(mezzo::cudart_static PROPERTIES INTERFACE_LINK_LIBRARIES CUDA::cudart_static)
  else()
    cmake_path(ABSOLUTE_PATH CMAKE_CURRENT_LIST_DIR OUTPUT_VARIABLE archive)
    cmake_path(SET archive NORMALIZE "${archive}/../../mezzo/libcudart_static.a")
    if(NOT EXISTS "${archive}")
      set(mezzo_FOUND FALSE)
      set(mezzo_NOT_FOUND_MESSAGE
        "mezzo was built with CUDA kernels, and its CUDA run time ${archive} is missing. Install mezzo again")
      return()
    endif()
    add_library(mezzo::cudart_static STATIC IMPORTED)
    set_target_properties(mezzo::cudart_static PROPERTIES IMPORTED_LOCATION "${archive}"
      INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
  endif()
endif()
