// What ends a program that does to the emulated card what a real one would not stand.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mezzo::emulated_card {

// Says what is wrong on stderr and aborts: there is no meaningful way on, and the place where it
// happened is on the stack.
[[noreturn]] inline void give_up(const std::string& what) {
  std::fprintf(stderr, "emulated card: %s\n", what.c_str());
  std::abort();
}

}  // namespace mezzo::emulated_card
