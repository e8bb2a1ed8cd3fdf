// Uses the installed library the way a stranger would: one header, one target. It takes what only
// matters to a shared library, too: exceptions, virtual functions and variables of a thread go from
// one to the other.
#include <cstdio>

#include "mezzo/mezzo.h"

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 1;
}

bool is_error_caught() {
  try {
    static_cast<void>(mezzo::matmul(mezzo::full({2, 3}, 1.0F), mezzo::full({2, 3}, 1.0F)));
  } catch (const mezzo::ArgumentError&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  const mezzo::Tensor x = mezzo::full({2, 3}, 1.5F);
  const mezzo::Tensor y = mezzo::relu(x);
  const mezzo::Tensor total = mezzo::sum(y);
  if (total.item() != 9.0F) return fail("sum(relu(full({2, 3}, 1.5))) is not 9");
  if (!is_error_caught()) return fail("a product of wrong shapes is no ArgumentError");
  std::puts("the installed library works");
  return 0;
}
