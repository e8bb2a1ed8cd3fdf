// Names of calls that are the same whenever a step is run, eagerly or from a captured program.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace mezzo {

struct CallId {
  // The path of the module in whose forward pass the call was made; in a backward pass, the path of
  // the call whose gradient is computed. Empty outside of modules and in a root.
  std::string path{};
  std::string op{};
  // In a backward pass: the call whose gradient is computed, as name_in_module() gives it. Empty in
  // a forward pass.
  std::string gradient_of{};
  // The number among the calls of which all of the above is equal, from 0.
  std::int64_t number = 0;

  bool is_backward() const { return !gradient_of.empty(); }
  // `conv2d`, or for a later call of the same operation in the same module `conv2d#1`.
  std::string name_in_module() const {
    return number == 0 ? op : op + "#" + std::to_string(number);
  }
  // `layer1.0.conv1: conv2d`, or `layer1.0.conv1: conv2d_grad_weight, backward of conv2d`. A root's
  // calls are named without a path.
  std::string text() const {
    std::string result = path.empty() ? name_in_module() : path + ": " + name_in_module();
    if (is_backward()) result += ", backward of " + gradient_of;
    return result;
  }

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a comparison for a pointer
  auto operator<=>(const CallId&) const = default;
};

// A result of a call: most calls have one.
struct ResultId {
  CallId call{};
  std::size_t output = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a comparison for a pointer
  auto operator<=>(const ResultId&) const = default;
};

}  // namespace mezzo
