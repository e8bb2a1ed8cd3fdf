// Tests that the transcripts in the documents match the command: every line after a `$` is run in a
// temporary folder, and its output is compared except for numbers.
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

struct Transcribed {
  std::string line;    // without the `$`, joined
  std::string output;  // as in the document
};

// The transcripts in all blocks marked `console`.
std::vector<Transcribed> transcript_of(const std::string& document) {
  std::ifstream file(document);
  std::vector<Transcribed> found;
  bool is_within = false;
  bool goes_on = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```")) {
      is_within = line == "```console";
    } else if (is_within && (line.starts_with("$ ") || goes_on)) {
      if (!goes_on) found.emplace_back();
      const bool ends_later = line.ends_with('\\');
      const std::size_t begin = goes_on ? 0 : 2;
      found.back().line += line.substr(begin, line.size() - begin - (ends_later ? 1 : 0));
      goes_on = ends_later;
    } else if (is_within) {
      found.back().output += line + "\n";
    }
  }
  return found;
}

// Losses differ in their last digits between CPUs, and times between runs.
std::string without_numbers(const std::string& text) {
  const std::regex sizes(" [0-9.]+ (B|kB|MB|GB|KiB|MiB|GiB)\\b");
  const std::regex numbers("[0-9]+(\\.[0-9]+)?(e-?[0-9]+)?");
  return std::regex_replace(std::regex_replace(text, sizes, " # bytes"), numbers, "#");
}

// Lines that begin with this precede the output of a transcript's line.
constexpr const char* kMark = "-- next --";

// One shell runs all lines, like a user's shell, which keeps variables.
std::string script_of(const std::vector<Transcribed>& transcript, const std::string& folder) {
  std::string script = "cd '" + folder + "'\nmezzo() { " MEZZO_COMMAND " \"$@\"; }\n";
  for (const Transcribed& entry : transcript) {
    script += "echo '" + std::string(kMark) + "'\n{ " + entry.line + "\n} 2>&1\n";
  }
  return script;
}

TEST_F(Command, TheTranscriptOfTheDocumentIsWhatItSays) {
  const std::vector<Transcribed> transcript = transcript_of(MEZZO_DOCS "/training.md");
  ASSERT_FALSE(transcript.empty());
  std::ofstream(path("script")) << script_of(transcript, folder_.string());
  std::istringstream output(run_line("sh " + path("script")).output);
  std::vector<std::string> said;
  for (std::string line; std::getline(output, line);) {
    if (line == kMark) {
      said.emplace_back();
    } else if (!is_about_this_cpu(line)) {
      said.back() += line + "\n";
    }
  }
  ASSERT_EQ(said.size(), transcript.size());
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(without_numbers(said[i]), without_numbers(transcript[i].output))
        << transcript[i].line << "\n"
        << said[i];
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
