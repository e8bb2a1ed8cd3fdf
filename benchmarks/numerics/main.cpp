// mezzo_numerics: five experiments on the effect of 16-bit arithmetic on training, in one table.
//
//   mezzo_numerics --data mnist:DIR [--only 2 5] [--out FILE]
//
// Exits with status 1 if a value is outside its band.
#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "benchmarks/numerics/experiments.h"

namespace {

using numerics::Table;

using Experiment = void (*)(const mezzo::train::DataPair& data, Table& table);
constexpr Experiment kExperiments[] = {numerics::run_matching, numerics::run_gradients,
                                       numerics::run_scaling, numerics::run_exact,
                                       numerics::run_weight_update};

int run(const std::string& data_spec, const std::vector<int>& only, const std::string& out) {
  const auto start = std::chrono::steady_clock::now();
  const mezzo::train::DataPair data = mezzo::train::open_data(data_spec);
  Table table;
  for (int number = 1; const Experiment experiment : kExperiments) {
    if (only.empty() || std::ranges::count(only, number) > 0) experiment(data, table);
    ++number;
  }
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
  CLI::App app("Five experiments on the effects of 16 bits on training, in one table.",
               "mezzo_numerics");
  std::string data = "digits";
  std::vector<int> only;
  std::string out;
  app.add_option("--data", data, "data set: mnist:DIR, digits")->capture_default_str();
  app.add_option("--only", only, "numbers of the experiments to run; all by default")
      ->check(CLI::Range(1, 5));
  app.add_option("--out", out, "also write the table to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(data, only, out);
  } catch (const std::exception& error) {
    std::cerr << "mezzo_numerics: " << error.what() << '\n';
    return 2;
  }
}
