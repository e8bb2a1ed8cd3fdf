// The entry points of libFuzzer. The seeds are first written to the first folder on the command
// line.
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace {

void write_seeds(const std::filesystem::path& folder) {
  std::size_t number = 0;
  for (const mezzo::fuzz::Bytes& seed : mezzo::fuzz::seeds()) {
    std::ofstream file(folder / ("seed" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
  }
}

}  // namespace

// The names are libFuzzer's.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" int LLVMFuzzerInitialize(const int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    if (!std::filesystem::is_directory((*argv)[i])) continue;
    write_seeds((*argv)[i]);
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // -1 would keep an input out of the corpus, but refused inputs teach libFuzzer as much.
  static_cast<void>(mezzo::fuzz::accepts({data, size}));
  return 0;
}
// NOLINTEND(readability-identifier-naming)
