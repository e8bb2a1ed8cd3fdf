// mezzo tokenize: a text as the numbers that language models are trained on.
#include <algorithm>
#include <span>

#include "mezzo/cli/command.h"
#include "mezzo/cli/distinct_files.h"
#include "mezzo/cli/failures.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/mapped_file.h"
#include "mezzo/io/utf8.h"
#include "mezzo/text/token_writer.h"
#include "mezzo/text/tokenizer_file.h"
#include "mezzo/text/train_bpe.h"

namespace mezzo::cli {
namespace {

struct TokenizeOptions {
  std::string tokenizer{};
  std::int64_t train = 0;  // 0: not given
  std::string input{};
  std::string out{};
};

// The names of what is written.
struct TokenFiles {
  std::string train;
  std::string test;
  std::string tokenizer;
};

TokenFiles files_in(const std::string& folder, bool is_json) {
  return {folder + "/train.bin", folder + "/val.bin",
          folder + (is_json ? "/tokenizer.json" : "/tokenizer.model")};
}

void check_tokenize_options(const TokenizeOptions& options) {
  check_arg(options.tokenizer.empty() != (options.train == 0), "--tokenizer",
            options.train == 0 ? "is missing. Give a tokenizer's file, or have one made by --train"
                               : "and --train cannot both be given. Leave one of the two out");
  const TokenFiles files = files_in(options.out, true);
  const NamedFile input{"--input", options.input};
  for (const std::string* path : {&files.train, &files.test, &files.tokenizer}) {
    check_distinct({input, {"--out", *path}});
    check_outputs({{"--out", *path}});
  }
}

// The text of the input; throws FileError if it is none.
std::string_view checked_text(const io::MappedFile& input) {
  const std::span<const std::byte> bytes = input.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::size_t odd = io::find_invalid_utf8(text); odd != std::string_view::npos) {
    fail<FileError>("--input", input.path(), ": not UTF-8: byte ", odd, " is ",
                    static_cast<unsigned>(static_cast<unsigned char>(text[odd])),
                    ". Convert it to UTF-8");
  }
  return text;
}

// Where the last tenth begins: with the first line that begins in it or, if none does, with the
// first character.
std::size_t begin_of_test(const io::MappedFile& input, std::string_view text) {
  const auto is_within = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80U;
  };
  std::size_t begin = text.size() - text.size() / 10;
  const std::size_t line_end = begin > 0 ? text.find('\n', begin - 1) : std::string_view::npos;
  if (line_end != std::string_view::npos && line_end + 1 < text.size()) begin = line_end + 1;
  while (is_within(begin)) ++begin;
  if (begin == 0 || begin >= text.size()) {
    fail<FileError>("--input", input.path(), ": ", text.size(),
                    " bytes are too few for a part to train on and a tenth to test on. Give a "
                    "longer text");
  }
  return begin;
}

text::TokenizerFile tokenizer_file(const TokenizeOptions& options, std::string_view text) {
  if (options.train == 0) return text::read_tokenizer_file(options.tokenizer);
  return {.bytes = text::train_bpe(text, options.train), .is_json = true};
}

void run_tokenize(const TokenizeOptions& options) {
  check_tokenize_options(options);
  const io::MappedFile input(options.input, "--input");
  const std::string_view text = checked_text(input);
  const std::size_t train_bytes = begin_of_test(input, text);
  io::check_folder_writable(options.out, "--out");
  const text::TokenizerFile file = tokenizer_file(options, text);
  const auto tokenizer = text::make_tokenizer(file, options.tokenizer);
  const TokenFiles files = files_in(options.out, file.is_json);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  const auto [train_tokens, test_tokens] = on_the_way([&] {
    io::make_folders(options.out, "--out");
    text::TokenWriter train(files.train, vocabulary, "--out");
    text::TokenWriter test(files.test, vocabulary, "--out");
    tokenizer->encode_file_text(text.substr(0, train_bytes),
                                [&](std::span<const std::int32_t> ids) { train.add(ids); });
    tokenizer->encode_file_text(text.substr(train_bytes),
                                [&](std::span<const std::int32_t> ids) { test.add(ids); });
    io::write_file(files.tokenizer, std::as_bytes(std::span(file.bytes)), "--out");
    train.commit();
    test.commit();
    return std::pair(train.count(), test.count());
  });
  write_out(
      "{}: {} tokens\n{}: {} tokens\n{}: a vocabulary of {}, in {} bits; {:.2f} bytes of text per "
      "token\n",
      on_one_line(files.train), train_tokens, on_one_line(files.test), test_tokens,
      on_one_line(files.tokenizer), vocabulary,
      text::TokenWriter::fits_in_u16(vocabulary) ? 16 : 32,
      static_cast<double>(text.size()) /
          static_cast<double>(std::max<std::int64_t>(train_tokens + test_tokens, 1)));
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize", "A text as tokens, for language models to be trained on");
  auto options = std::make_shared<TokenizeOptions>();
  offer_files(command->add_option("--tokenizer", options->tokenizer,
                                  "tokenizer.json (byte-level BPE), or a model of SentencePiece"));
  add_size(*command, "--train", options->train,
           "Make a tokenizer of so many tokens from the text, instead of reading one");
  offer_files(command->add_option("--input", options->input, "Text in UTF-8"))->required();
  offer_folders(command->add_option("--out", options->out,
                                    "Folder for train.bin, val.bin and the tokenizer's file"))
      ->required();
  command->callback([options] { run_tokenize(*options); });
}

}  // namespace mezzo::cli
