// Prints the differences, or writes them into a document: frameworks_table [DOCUMENT]
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "tests/frameworks/differences.h"

namespace {

using namespace mezzo::frameworks;  // NOLINT(google-build-using-namespace): a program, not a header

void print_found() {
  for (const Difference& d : found_differences()) {
    std::printf("%s | %s | %s | %s | %s | %s\n", d.framework.c_str(), d.where.c_str(),
                d.what.c_str(), d.inputs.c_str(), d.theirs.c_str(), d.ours.c_str());
  }
}

void rewrite(const std::string& path) {
  std::string document = read_file(path);
  const std::string old = section_in(document);
  document.replace(document.find(old), old.size(), section());
  std::ofstream(path) << document;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1) {
      rewrite(argv[1]);
    } else {
      print_found();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
