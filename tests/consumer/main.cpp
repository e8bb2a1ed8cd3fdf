// Uses the installed library the way a stranger would: one header, one target.
#include <cstdio>

#include "mezzo/mezzo.h"

int main() {
  const mezzo::Tensor x = mezzo::full({2, 3}, 1.5F);
  const mezzo::Tensor y = mezzo::relu(x);
  const mezzo::Tensor total = mezzo::sum(y);
  const float value = total.item();
  if (value != 9.0F) {
    std::fprintf(stderr, "sum(relu(full({2, 3}, 1.5))) is %g, expected 9\n", value);
    return 1;
  }
  std::puts("the installed library works");
  return 0;
}
