#include "mezzo/ops/exact_sums.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace mezzo {
namespace {

// Empty where no ExactSums exists on this thread.
constinit thread_local std::optional<bool> exact_here;

bool is_set_in_environment() {
  const char* text = std::getenv("MEZZO_EXACT");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && std::string_view(text) == "1";
}

std::atomic<bool>& exact_elsewhere() {
  static std::atomic<bool> exact(is_set_in_environment());
  return exact;
}

}  // namespace

ExactSums::ExactSums(bool exact) : scope_(exact_here, exact) {}

void use_exact_sums(bool exact) { exact_elsewhere().store(exact); }

bool are_sums_exact() { return exact_here.has_value() ? *exact_here : exact_elsewhere().load(); }

}  // namespace mezzo
