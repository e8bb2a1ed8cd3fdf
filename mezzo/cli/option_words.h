// Converts the texts of the command line to the options of a run, group by group.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "mezzo/cli/options.h"

namespace mezzo::cli {

// Each function sets the options of its group in `run`, and throws ArgumentError that names the
// option.
void set_precision(const SharedOptions& options, train::RunOptions& run);
void set_beginning(const SharedOptions& options, train::RunOptions& run);
void set_loss(const SharedOptions& options, train::RunOptions& run);
void set_optimizer(const SharedOptions& options, train::RunOptions& run);
void set_schedule(const SharedOptions& options, train::RunOptions& run);
void set_data(const SharedOptions& options, train::RunOptions& run);
void set_watch(const SharedOptions& options, train::RunOptions& run);
void set_device(const SharedOptions& options, train::RunOptions& run);
void set_check(const SharedOptions& options, train::RunOptions& run);
void set_dump(const SharedOptions& options, train::RunOptions& run);
void set_histograms(const SharedOptions& options, train::RunOptions& run);

// The numbers of a text such as `0.9,0.999`, separated by commas or white space. Empty if the text
// is not a list of numbers, or a comma lacks a number on one side.
std::vector<double> numbers_in(std::string_view text);

// Copies a given setting to `value`. Throws ArgumentError if nothing reads the setting; the message
// names `reader`, the options under which something does.
template <class Value>
void set_if_read(const std::optional<Value>& given, bool is_read, const char* option,
                 const char* reader, Value& value) {
  check_arg(is_read || !given.has_value(), option, "is used only by ", reader,
            ". Give that, or leave it out");
  if (given.has_value()) value = *given;
}

}  // namespace mezzo::cli
