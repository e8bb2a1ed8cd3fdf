// Options for the initial weights, the frozen parts, and the loss.
#include <cctype>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <span>

#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"
#include "mezzo/io/source.h"

namespace mezzo::cli {
namespace {

bool is_space(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }

bool is_separator(char letter) { return letter == ',' || is_space(letter); }

// A comma outside of a path means a list.
bool is_list(const std::string& said) {
  return said.find(',') != std::string::npos && said.find('/') == std::string::npos &&
         !std::ifstream(said).is_open();
}

// Reads the numbers in a file.
std::vector<double> numbers_in_file(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 1 << 20;  // enough for tens of thousands of classes
  io::FileSource file(path, "--class-weights");
  check_arg(file.size() <= kMostBytes, "--class-weights", path, ": has ", file.size(),
            " bytes, which is too large for weights of classes. Write one number for each class");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  std::vector<double> numbers = numbers_in(text);
  check_arg(!numbers.empty(), "--class-weights", path,
            ": is not a file of numbers. Write one for each class, one per line");
  return numbers;
}

}  // namespace

std::vector<double> numbers_in(std::string_view text) {
  std::vector<double> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_spaces = [&] {
    while (at != end && is_space(*at)) ++at;
  };
  for (skip_spaces(); at != end; skip_spaces()) {
    double number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next != end && !is_separator(*next))) return {};
    numbers.push_back(number);
    at = next;
    skip_spaces();
    if (at == end || *at != ',') continue;
    ++at;
    skip_spaces();
    if (at == end) return {};  // an entry is missing
  }
  return numbers;
}

void set_beginning(const SharedOptions& options, train::RunOptions& run) {
  check_arg(options.head.empty() || options.head == "new", "--head", "`", options.head,
            "` is not new, the only value that is known. Use that, or leave the option out");
  run.fine_tuning.new_head = options.head == "new";
}

void set_loss(const SharedOptions& options, train::RunOptions& run) {
  const std::string& said = options.class_weights;
  if (said.empty()) return;
  run.loss.balances_classes = said == "balanced";
  if (run.loss.balances_classes) return;
  run.loss.class_weights = numbers_in(said);
  if (!run.loss.class_weights.empty()) return;
  check_arg(!is_list(said), "--class-weights", "`", said,
            "` is not a list of numbers. Write one for each class, like 1,2,0.5");
  run.loss.class_weights = numbers_in_file(said);
}

void add_freeze_option(CLI::App& command, SharedOptions& options) {
  command.add_option("--freeze", options.run.fine_tuning.freeze, "Frozen: conv1,layer1.*")
      ->delimiter(',')
      ->group(heading::kFineTuning);
}

void add_beginning_options(CLI::App& command, SharedOptions& options) {
  const auto add = [](CLI::Option* option) { option->group(heading::kFineTuning); };
  add(offer_files(command.add_option("--weights", options.run.fine_tuning.weights,
                                     "File or run to begin with")));
  add_freeze_option(command, options);
  add(offer(command.add_option("--head", options.head, "new: a new last layer"), {"new"}));
  add(command.add_flag("--zero-init-residual", options.run.zero_init_residual,
                       "Blocks begin as identity"));
}

void add_class_weights_option(CLI::App& command, SharedOptions& options) {
  offer(command.add_option("--class-weights", options.class_weights, "balanced, numbers, FILE"),
        {"balanced"})
      ->group(heading::kData);
}

}  // namespace mezzo::cli
