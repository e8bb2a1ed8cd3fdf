# Builds for 64-bit Arm on another machine, with Debian's cross compiler and, beside it, Debian's packages
# for arm64: their libraries lie in /usr/lib/aarch64-linux-gnu, where CMake looks because the compiler names
# that folder. `./run arm64` installs all of it and builds.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# What CTest starts test programs with. QEMU_CPU in the environment names the processor that it plays, by
# default `max`, which has all that QEMU knows.
find_program(MEZZO_QEMU qemu-aarch64)
if(MEZZO_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${MEZZO_QEMU}")
endif()
