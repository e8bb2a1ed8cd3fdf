// Completions: what shells offer, by running them, and that the command takes what is offered.
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;
using Words = std::vector<std::string>;

class Completion : public Command {
 protected:
  void SetUp() override {
    Command::SetUp();
    ASSERT_EQ(run("completion bash >" + path("mezzo.bash")).status, 0);
  }

  // What bash offers after these words, of which the last is being typed. They are given as bash
  // divides them: `=` and `:` are words of their own.
  Words offered(const Words& typed) const {
    std::string words = "mezzo";
    for (const std::string& word : typed) words += " '" + word + "'";
    std::ofstream(path("complete.sh"))
        << "cd " << folder_ << "\nsource ./mezzo.bash || exit 1\n"
        << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << typed.size() << "\n_mezzo\n"
        << "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const Outcome outcome = run_line("bash --norc " + path("complete.sh"));
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.errors, "");
    return lines_in(outcome.output);
  }

  static Words lines_in(const std::string& text) {
    Words lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(Completion, OffersCommandsFirst) {
  EXPECT_THAT(offered({""}), IsSupersetOf({"train", "compare", "plan", "completion", "man"}));
  EXPECT_THAT(offered({"co"}), UnorderedElementsAre("compare", "completion"));
  EXPECT_THAT(offered({"--"}), UnorderedElementsAre("--help", "--version"));
}

TEST_F(Completion, OffersTheOptionsOfACommand) {
  EXPECT_THAT(offered({"train", "--lr-s"}), ElementsAre("--lr-schedule"));
  EXPECT_THAT(offered({"train", ""}), IsSupersetOf({"--model", "--data", "--help"}));
  EXPECT_THAT(offered({"info", "--mod"}), IsEmpty());
  EXPECT_THAT(offered({"train", "--graph", "--opt"}),
              ElementsAre("--optimizer", "--optimizer-state"));
}

TEST_F(Completion, OffersValues) {
  EXPECT_THAT(offered({"train", "--optimizer", ""}),
              UnorderedElementsAre("sgd", "adam", "adamw", "lion", "rmsprop"));
  EXPECT_THAT(offered({"train", "--optimizer", "=", "adam"}), ElementsAre("adam", "adamw"));
  EXPECT_THAT(offered({"train", "--optimizer", "="}), Contains("sgd"));
  EXPECT_THAT(offered({"train", "--amp", "O2"}),
              UnorderedElementsAre("O2", "O2/bf16", "O2/f16", "O2/e4m3"));
  EXPECT_THAT(offered({"train", "--dtype", ""}), UnorderedElementsAre("bf16", "f16", "e4m3"));
  EXPECT_THAT(offered({"train", "--model", "lene"}), ElementsAre("lenet5"));
  EXPECT_THAT(offered({"plan", "lene"}), ElementsAre("lenet5"));
  EXPECT_THAT(offered({"ops", "softm"}), Contains("softmax"));
  EXPECT_THAT(offered({"man", "tr"}), ElementsAre("train"));
  EXPECT_THAT(offered({"train", "--lr", ""}), IsEmpty());  // any number
}

TEST_F(Completion, GoesOnWithLists) {
  EXPECT_THAT(offered({"compare", "--levels", "O0,O1,O3/b"}), ElementsAre("O0,O1,O3/bf16"));
  EXPECT_THAT(offered({"train", "--keep-f32", "softmax,batch_norm"}),
              Contains("softmax,batch_norm"));
}

TEST_F(Completion, OffersFilesAndFolders) {
  std::ofstream(path("weights.bin")) << "x";
  fs::create_directories(folder_ / "images");
  EXPECT_THAT(offered({"eval", "--weights", "w"}), ElementsAre("weights.bin"));
  EXPECT_THAT(offered({"train", "--logdir", ""}), ElementsAre("images"));
  EXPECT_THAT(offered({"train", "--data", "im"}), ElementsAre("images:"));
  EXPECT_THAT(offered({"train", "--data", "images", ":"}), ElementsAre("images"));
  EXPECT_THAT(offered({"train", "--data", "images", ":", "im"}), ElementsAre("images"));
  EXPECT_THAT(offered({"train", "--data", "text", ":", "w"}), ElementsAre("weights.bin"));
  EXPECT_THAT(offered({"train", "--data", "text", ":"}), testing::Contains("weights.bin"));
}

// Those of the words that the script has for options of `train`.
std::map<std::string, Words> words_of_train(const Words& script) {
  std::map<std::string, Words> words;
  bool is_train = false;
  for (const std::string& line : script) {
    if (line.starts_with("    ") && line[4] != ' ') is_train = line == "    train)";
    const std::size_t quote = line.find("words='");
    if (!is_train || !line.starts_with("        --") || quote == std::string::npos) continue;
    std::istringstream list(line.substr(quote + 7, line.rfind('\'') - quote - 7));
    const std::string option = line.substr(8, line.find(')') - 8);
    for (std::string word; list >> word;) words[option].push_back(word);
  }
  return words;
}

// What a value of an option must be given with.
std::string companions_of(const std::string& option, const std::string& value) {
  if (value == "text:" || value == "tokens:") return " --model gpt-tiny";
  if (option == "--recipe") return " --dtype e4m3";
  if (option == "--monitor") return " --early-stop 2";
  if (option == "--head") return " --weights " MEZZO_DOCS "/ops.md";
  return "";
}

TEST_F(Completion, OffersWhatTheCommandTakes) {
  const auto words = words_of_train(lines_in(read_text("mezzo.bash")));
  EXPECT_GE(words.size(), 10U);
  EXPECT_EQ(words.count("--model"), 1U);
  for (const auto& [option, values] : words) {
    for (const std::string& value : values) {
      if (option == "--device" && value == "cuda") continue;  // which may not be here
      // A folder that is not there: the options are read, and nothing is trained.
      const std::string data = option == "--data" ? "" : " --data images:/there/is/none";
      const std::string given = value.ends_with(':') ? value + "/there/is/none" : value;
      const std::string steps = value == "digits" || value == "shapes" ? " --threads 0" : "";
      std::string line = "train ";
      line.append(option).append(" ").append(given).append(data).append(steps);
      line.append(companions_of(option, value));
      const Outcome outcome = run(line);
      EXPECT_EQ(outcome.status, 2) << option << ' ' << value << outcome.errors;
      EXPECT_THAT(outcome.errors, AllOf(Not(HasSubstr("[" + option + "]")),
                                        Not(HasSubstr("unknown")), Not(HasSubstr(" " + option))))
          << option << ' ' << value;
    }
  }
}

TEST_F(Completion, IsForShellsThatThereAre) {
  const Outcome outcome = run("completion fish");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("bash and zsh"));
  EXPECT_EQ(run("completion").status, 2);
}

// Zsh's own function for options, replaced by one that prints what it is given.
constexpr const char* kPrintArguments = R"zsh(
_arguments() { state=argument; print -rl -- "$@"; return 1 }
_describe() { print -rl -- "${(@P)2}" }
words=(train)
source ./_mezzo
)zsh";

TEST_F(Completion, HasAScriptThatZshReads) {
  if (run_line("zsh --version").status != 0) GTEST_SKIP() << "there is no zsh";
  ASSERT_EQ(run("completion zsh >" + path("_mezzo")).status, 0);
  std::ofstream(path("print.zsh")) << "cd " << folder_ << kPrintArguments;
  const Outcome outcome = run_line("zsh -f " + path("print.zsh"));
  EXPECT_EQ(outcome.errors, "");
  const Words lines = lines_in(outcome.output);
  EXPECT_THAT(lines, Contains("--dtype=[bf16, f16 or e4m3 (bf16)]:TEXT:(bf16 f16 e4m3)"));
  EXPECT_THAT(lines, Contains("--nesterov[Nesterov momentum of sgd]"));
  EXPECT_THAT(lines, Contains("--logdir=[Folder for TensorBoard]:TEXT:_files -/"));
  EXPECT_THAT(lines, Contains("--data=[digits, shapes, mnist:DIR, cifar10:DIR, images:DIR, "
                              "text:FILE or tokens:DIR]:TEXT:"
                              "(digits shapes mnist\\: cifar10\\: images\\: text\\: tokens\\:)"));
}

}  // namespace
}  // namespace mezzo::cli_tests
