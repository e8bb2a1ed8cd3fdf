#include "mezzo/ops/tf32.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace mezzo {
namespace {

bool is_tf32_set_in_environment() {
  const char* text = std::getenv("MEZZO_TF32");  // NOLINT(concurrency-mt-unsafe)
  return text != nullptr && std::string_view(text) == "1";
}

std::atomic<bool>& allowed() {
  static std::atomic<bool> allowed(is_tf32_set_in_environment());
  return allowed;
}

}  // namespace

void allow_tf32(bool allow) { allowed().store(allow); }
bool is_tf32_allowed() { return allowed().load(); }

}  // namespace mezzo
