// Runs a fuzzer as a test, for any compiler: reads its seeds, and slightly damaged copies of them.
// With files as arguments, it reads these instead, for inputs that libFuzzer found.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>

#include "mezzo/core/error.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

// The maximum number of places at which a seed is damaged, spread over its length.
constexpr std::size_t kPlaces = 200;

// Reads the seed cut short, and with one byte changed, at many places.
void damage(const Bytes& seed) {
  const std::size_t step = seed.size() / kPlaces + 1;
  for (std::size_t place = 0; place < seed.size(); place += step) {
    static_cast<void>(accepts(Input(seed).first(place)));
    for (const std::uint8_t change : {0x01, 0x80, 0xff}) {
      Bytes changed = seed;
      changed[place] ^= change;
      static_cast<void>(accepts(changed));
    }
  }
}

// The number of refused seeds.
int replay_seeds() {
  int refused = 0;
  std::size_t number = 0;
  for (const Bytes& seed : seeds()) {
    ++number;
    try {
      read(seed);
    } catch (const Error& error) {
      std::printf("seed %zu is refused: %s\n", number, error.what());
      ++refused;
    }
    damage(seed);
  }
  std::printf("%zu seeds, %d refused\n", number, refused);
  return number == 0 ? 1 : refused;
}

void replay_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    read(bytes);
    std::printf("%s: accepted\n", path);
  } catch (const Error& error) {
    std::printf("%s: %s\n", path, error.what());
  }
}

}  // namespace
}  // namespace mezzo::fuzz

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) mezzo::fuzz::replay_file(argv[i]);
    return argc > 1 || mezzo::fuzz::replay_seeds() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a finding: %s\n", error.what());
    return 1;
  }
}
