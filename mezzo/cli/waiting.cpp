// Limits how long the command's threads spin for each other before they sleep.
//
// libgomp's own choice, 300,000 turns, takes milliseconds. If another program keeps a core busy, a
// spinning thread takes the core from the thread that it waits for: a step of ResNet-20 took 1680
// ms instead of 138. On a quiet machine no difference was found. libgomp reads the number from the
// environment when it is loaded, before main() could set it. So the command executes itself once
// more, as early as a program can: before libraries are even initialised, which would take longer
// than everything else.
#if defined(__linux__)
#include <array>
#include <cstddef>
#include <string_view>

#include <sys/auxv.h>
#include <unistd.h>

namespace {

// Runs before main() and before the libraries are initialised: only plain memory and system calls.
void bound_waiting(int /*count*/, char** arguments, char** environment) {
  // If the dynamic loader was started as the program, /proc/self/exe is the loader.
  if (getauxval(AT_BASE) == 0) return;
  static char setting[] = "GOMP_SPINCOUNT=20000";
  static std::array<char*, 4096> extended{};
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    const std::string_view variable = environment[count];
    const bool is_decided =
        variable.starts_with("GOMP_SPINCOUNT=") || variable.starts_with("OMP_WAIT_POLICY=");
    if (is_decided || count + 2 >= extended.size()) return;
    extended[count] = environment[count];
  }
  extended[count] = setting;
  // Uses its own path: started as /proc/self/exe, it would be called `exe` by ps and top.
  static std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length > 0) execve(path.data(), arguments, extended.data());
  // Reached if the system refuses: then threads spin for libgomp's default.
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBoundWaiting)(int, char**,
                                                                          char**) = bound_waiting;

}  // namespace
#endif
