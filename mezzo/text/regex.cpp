#include "mezzo/text/regex.h"

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "mezzo/core/error.h"
#include "mezzo/text/checked_text.h"

namespace mezzo::text {
namespace {

// Steps that one search may take: a sound expression takes a few, and one that doubles its steps
// with each character must end.
constexpr std::uint32_t kMostSteps = 1'000'000;
// A repeated group remembers each repetition on this stack.
constexpr std::size_t kFirstStack = std::size_t{32} << 10U;
constexpr std::size_t kMostStack = std::size_t{16} << 20U;

std::string words_of_pcre2(int error) {
  std::array<PCRE2_UCHAR8, 256> words{};
  pcre2_get_error_message_8(error, words.data(), words.size());
  return reinterpret_cast<const char*>(words.data());
}

struct FreeContext {
  void operator()(pcre2_compile_context_8* context) const { pcre2_compile_context_free_8(context); }
};

// A dot matches all but a line feed, however PCRE2 was built.
std::unique_ptr<pcre2_compile_context_8, FreeContext> make_context() {
  std::unique_ptr<pcre2_compile_context_8, FreeContext> context(
      pcre2_compile_context_create_8(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline_8(context.get(), PCRE2_NEWLINE_LF);
  return context;
}

bool matches_nothing(const pcre2_code_8* code) {
  std::uint32_t result = 0;
  pcre2_pattern_info_8(code, PCRE2_INFO_MATCHEMPTY, &result);
  return result != 0;
}

}  // namespace

Regex::Regex(const std::string& pattern) {
  const auto context = make_context();
  const std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
  int error = 0;
  std::size_t place = 0;
  code_ = pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), options,
                          &error, &place, context.get());
  if (code_ == nullptr) fail<ArgumentError>(kTextOp, words_of_pcre2(error));
  if (matches_nothing(code_)) {
    pcre2_code_free_8(std::exchange(code_, nullptr));
    fail<ArgumentError>(kTextOp, "it matches the empty text, too");
  }
  // Where programs may not make code, PCRE2 interprets the expression.
  static_cast<void>(pcre2_jit_compile_8(code_, PCRE2_JIT_COMPLETE));
}

Regex::Regex(Regex&& other) noexcept : code_(std::exchange(other.code_, nullptr)) {}

Regex::~Regex() { pcre2_code_free_8(code_); }

RegexSearch::RegexSearch(const Regex& regex)
    : code_(regex.code_),
      data_(pcre2_match_data_create_from_pattern_8(regex.code_, nullptr)),
      context_(pcre2_match_context_create_8(nullptr)),
      stack_(pcre2_jit_stack_create_8(kFirstStack, kMostStack, nullptr)) {
  if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  pcre2_set_match_limit_8(context_, kMostSteps);
  // Without a stack of its own, as where PCRE2 makes no code, a search uses the thread's.
  if (stack_ != nullptr) pcre2_jit_stack_assign_8(context_, nullptr, stack_);
}

RegexSearch::RegexSearch(RegexSearch&& other) noexcept
    : code_(other.code_),
      data_(std::exchange(other.data_, nullptr)),
      context_(std::exchange(other.context_, nullptr)),
      stack_(std::exchange(other.stack_, nullptr)) {}

RegexSearch::~RegexSearch() {
  pcre2_match_data_free_8(data_);
  pcre2_match_context_free_8(context_);
  pcre2_jit_stack_free_8(stack_);
}

std::optional<RegexMatch> RegexSearch::find(std::string_view text, std::size_t from) {
  const int found = pcre2_match_8(code_, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(),
                                  from, PCRE2_NO_UTF_CHECK, data_, context_);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    fail<ArgumentError>(kTextOp,
                        "the tokenizer's regular expression cannot be searched for at byte ", from,
                        " of the text: ", words_of_pcre2(found), ". Use another tokenizer");
  }
  const std::size_t* const ends = pcre2_get_ovector_pointer_8(data_);
  return RegexMatch{ends[0], ends[1]};
}

}  // namespace mezzo::text
