// mezzo_numerics: five experiments on what 16 bits do to training, in one table.
//
//   mezzo_numerics --data mnist:DIR [--out FILE]
//
// Ends with status 1 if a value is not in its band.
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>

#include "benchmarks/numerics/experiments.h"

namespace {

using numerics::Table;

int run(const std::string& data_spec, const std::string& out) {
  const auto start = std::chrono::steady_clock::now();
  const mezzo::train::DataPair data = mezzo::train::open_data(data_spec);
  Table table;
  numerics::run_matching(data, table);
  numerics::run_gradients(data, table);
  numerics::run_scaling(data, table);
  numerics::run_exact(data, table);
  numerics::run_weight_update(data, table);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::cerr << "took " << numerics::fixed(elapsed.count(), 0) << " s on " << mezzo::num_threads()
            << " threads\n";
  std::cout << table.markdown() << std::flush;
  if (!out.empty()) {
    std::ofstream file(out);
    file << table.markdown();
    file.close();
    if (!file) mezzo::fail<mezzo::FileError>("numerics", "cannot write ", out);
  }
  return table.passed() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Five experiments on what 16 bits do to training, in one table.", "mezzo_numerics");
  std::string data = "digits";
  std::string out;
  app.add_option("--data", data, "data set: mnist:DIR, digits")->capture_default_str();
  app.add_option("--out", out, "file to write the table to, too");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(data, out);
  } catch (const std::exception& error) {
    std::cerr << "mezzo_numerics: " << error.what() << '\n';
    return 2;
  }
}
