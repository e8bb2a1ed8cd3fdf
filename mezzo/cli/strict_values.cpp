#include "mezzo/cli/strict_values.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace mezzo::cli {
namespace {

std::string check_text(const std::string& text) {
  return text.empty() ? "the value is empty. Leave the option out, or give it a value"
                      : std::string();
}

// A text of only commas has no item, and the parser takes the next option for one.
std::string check_item(const std::string& text) {
  if (!text.starts_with('-')) return check_text(text);
  return "the list before `" + text +
         "` is empty. Leave the option out, or give at least one entry";
}

template <class Number>
bool fits(const std::string& text) {
  Number number{};
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

std::string check_digits(const std::string& text, bool may_be_negative) {
  const std::size_t first = may_be_negative && text.starts_with('-') ? 1 : 0;
  const bool has_digits =
      first < text.size() && text.find_first_not_of("0123456789", first) == std::string::npos;
  const bool has_leading_zero = text.size() > first + 1 && text[first] == '0';
  if (has_digits && !has_leading_zero) {
    const bool in_range = may_be_negative ? fits<std::int64_t>(text) : fits<std::uint64_t>(text);
    return in_range ? std::string() : "`" + text + "` does not fit into 64 bits";
  }
  return "`" + text + "` is not a whole decimal number" +
         (may_be_negative ? "" : " of at least 0") +
         (has_leading_zero ? " without leading zeros" : "");
}

std::string check_size(const std::string& text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || size >= 1) return {};  // check_digits() reports what is not a number
  return "must be at least 1: " + text + ". Leave the option out for the default";
}

// A number beyond f64 would become infinity or 0 in the parser.
std::string check_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error != std::errc::invalid_argument && end == text.data() + text.size();
  return is_number ? std::string() : "`" + text + "` is not a decimal number";
}

void refuse_odd_values_of(CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (option.get_expected_max() == 0) {
    option.disable_flag_override();
  } else if (type.starts_with("FLOAT")) {
    option.check(check_number);
  } else if (type.starts_with("TEXT")) {
    option.check(option.get_delimiter() != '\0' ? check_item : check_text);
  } else if (type.starts_with("INT") || type.starts_with("UINT")) {
    const bool may_be_negative = type.starts_with("INT");
    option.check([=](const std::string& text) { return check_digits(text, may_be_negative); });
  }
}

}  // namespace

CLI::Option* add_size(CLI::App& command, const std::string& name, std::int64_t& size,
                      const std::string& help) {
  return command.add_option(name, size, help)->check(check_size);
}

void refuse_odd_values(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<CLI::Option*> options = command->get_options();
    const bool has_words = std::ranges::any_of(options, &CLI::Option::get_positional);
    for (CLI::Option* option : options) {
      refuse_odd_values_of(*option);
      if (has_words && option->get_delimiter() != '\0') option->allow_extra_args(false);
    }
  }
}

}  // namespace mezzo::cli
