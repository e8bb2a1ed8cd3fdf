// What ends a program that does to the emulated card what a real one would not stand.
#pragma once

#include <string>

namespace mezzo::emulated_card {

// Says what is wrong on stderr and aborts: there is no meaningful way on, and the place where it
// happened is on the stack.
[[noreturn]] void give_up(const std::string& what);

}  // namespace mezzo::emulated_card
