// The subcommands of `mezzo`. Each adds its options to the parser and runs in its callback.
#pragma once

#include <CLI/CLI.hpp>

namespace mezzo::cli {

void add_train(CLI::App& app);
void add_compare(CLI::App& app);
void add_diff(CLI::App& app);
void add_bench(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_generate(CLI::App& app);
void add_plan(CLI::App& app);
void add_tune(CLI::App& app);
void add_ops(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_info(CLI::App& app);
void add_data(CLI::App& app);
// After all others, of which it has pages.
void add_man(CLI::App& app);
void add_completion(CLI::App& app);

}  // namespace mezzo::cli
