#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include <unistd.h>

#include "mezzo/core/error.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {

bool accepts(Input input) {
  try {
    read(input);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void require(bool ok, std::string_view what) {
  if (ok) return;
  std::fprintf(stderr, "fuzz: this does not hold: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

Folder::Folder() {
  static int count = 0;
  path_ = std::filesystem::temp_directory_path() / concat("mezzo_fuzz_", ::getpid(), "_", count++);
  std::filesystem::create_directories(path_);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Folder::write(std::string_view name, Input bytes) const {
  std::ofstream file(path(name), std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path(name));
}

}  // namespace mezzo::fuzz
