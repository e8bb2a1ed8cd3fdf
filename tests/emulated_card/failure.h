// Ends a program that does something a real GPU would not survive.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mezzo::emulated_card {

// Prints what is wrong to stderr and aborts. There is no meaningful way to continue, and the stack
// shows where it happened.
[[noreturn]] inline void give_up(const std::string& what) {
  std::fprintf(stderr, "emulated card: %s\n", what.c_str());
  std::abort();
}

}  // namespace mezzo::emulated_card
