// mezzo generate: text that a language model writes.
#include "mezzo/models/generate.h"

#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "mezzo/amp/autocast.h"
#include "mezzo/cli/command.h"
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/text_codec.h"
#include "mezzo/cli/utf8_output.h"
#include "mezzo/io/mapped_file.h"
#include "mezzo/models/model.h"
#include "mezzo/train/example.h"

namespace mezzo::cli {
namespace {

struct GenerateWords : SharedOptions {
  std::vector<std::string> prompts{};
  std::string prompts_file{};
  std::vector<std::string> stops{};
  std::string tokenizer{};
  std::int64_t tokens = 100;
  models::SamplingOptions sampling{};
};

// The text of one prompt, as it grows.
class Answer {
 public:
  Answer(const TextCodec& codec, const std::vector<std::string>& stops, bool is_shown_at_once)
      : codec_(codec), stops_(stops), is_shown_at_once_(is_shown_at_once) {}

  // Adds text as it is, such as the prompt.
  void show(const std::string& text) {
    shown_ += text;
    if (!is_shown_at_once_) return;
    put_text(stdout, text);
    static_cast<void>(std::fflush(stdout));
  }

  // Adds a token; false where the text has reached one of the stops.
  bool add(std::int64_t token) {
    const std::string bytes = codec_.decode({token});
    answered_ += bytes;
    show(output_.add(bytes));
    for (const std::string& stop : stops_) {
      if (answered_.ends_with(stop)) return false;
    }
    return true;
  }

  // Ends the text with a newline.
  void end() {
    show(output_.end() + "\n");
    if (!is_shown_at_once_) put_text(stdout, shown_);
  }

 private:
  const TextCodec& codec_;
  const std::vector<std::string>& stops_;
  bool is_shown_at_once_;
  Utf8Output output_{};
  std::string answered_{};  // without the prompt
  std::string shown_{};
};

// The lines of a file.
std::vector<std::string> read_prompts(const std::string& path) {
  const io::MappedFile file(path, "--prompts");
  const std::span<const std::byte> bytes = file.bytes();
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> prompts;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) {
      fail<FileError>("--prompts", path, ": line ", prompts.size() + 1,
                      " is empty. Give a text to go on from");
    }
    prompts.push_back(line);
  }
  if (prompts.empty()) fail<FileError>("--prompts", path, ": there is no line. Give one per text");
  return prompts;
}

std::vector<std::string> all_prompts(const GenerateWords& words) {
  check_arg(!words.prompts.empty() || !words.prompts_file.empty(), "--prompt",
            "is missing. Give a text to go on from, or a file of them by --prompts");
  std::vector<std::string> prompts = words.prompts;
  for (const std::string& prompt : prompts) {
    check_arg(!prompt.empty(), "--prompt", "is empty. Give a text to go on from");
  }
  if (words.prompts_file.empty()) return prompts;
  const std::vector<std::string> more = read_prompts(words.prompts_file);
  prompts.insert(prompts.end(), more.begin(), more.end());
  return prompts;
}

void answer_all(nn::Module& net, const TextCodec& codec, const std::vector<std::string>& texts,
                const GenerateWords& words) {
  std::vector<std::vector<std::int64_t>> prompts;
  std::vector<Answer> answers;
  for (const std::string& text : texts) {
    prompts.push_back(codec.encode(text));
    answers.emplace_back(codec, words.stops, texts.size() == 1);
    answers.back().show(text);
  }
  models::generate(net, prompts,
                   {.tokens = words.tokens,
                    .sampling = words.sampling,
                    .seed = words.run.seed,
                    .on_token = [&](std::size_t sequence, std::int64_t token) {
                      return answers[sequence].add(token);
                    }});
  for (Answer& answer : answers) answer.end();
}

void run_generate(const GenerateWords& words) {
  const train::RunOptions run = words.parsed();
  check_arg(models::predicts_tokens(run.model), "--model", run.model,
            " does not predict tokens. Use a language model, such as gpt-tiny or gpt2");
  check_arg(words.tokens >= 1, "--tokens", "must be at least 1: ", words.tokens);
  models::check_sampling(words.sampling);
  const std::vector<std::string> texts = all_prompts(words);
  apply_machine_options(words);
  const train::ExampleKind example = train::usual_example(run);
  const std::unique_ptr<TextCodec> codec = make_codec(words.tokenizer, example.vocabulary);
  const auto net = train::make_model(run, example.shape, example.classes);
  const amp::Policy policy = train::apply_precision(*net, run, example.shape);
  const amp::Autocast region(policy);
  answer_all(*net, *codec, texts, words);
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Text that a language model writes");
  auto words = std::make_shared<GenerateWords>();
  add_precision_options(*command, *words, OfferedModels::kAll);
  const auto add = [](CLI::Option* option, const char* group) { option->group(group); };
  add(offer_files(command->add_option("--weights", words->run.fine_tuning.weights,
                                      "safetensors file, checkpoint or folder of checkpoints"))
          ->required(),
      heading::kModel);
  add(offer_files(
          command->add_option("--tokenizer", words->tokenizer,
                              "What makes tokens of text (for a vocabulary of 256: bytes)")),
      heading::kModel);
  add(command
          ->add_option("--prompt", words->prompts,
                       "The text to go on from; again for more, which are answered together")
          ->take_all()
          ->allow_extra_args(false),
      heading::kText);
  add(offer_files(command->add_option("--prompts", words->prompts_file,
                                      "A file of more texts to go on from, a line each")),
      heading::kText);
  add(command->add_option("--tokens", words->tokens, "New tokens, at most")->capture_default_str(),
      heading::kText);
  add(command
          ->add_option("--temperature", words->sampling.temperature,
                       "Below 1, likely tokens become likelier; 0 takes the likeliest")
          ->capture_default_str(),
      heading::kText);
  add(command->add_option("--top-k", words->sampling.top_k,
                          "Choose among the K likeliest tokens (all)"),
      heading::kText);
  add(command->add_option("--top-p", words->sampling.top_p,
                          "Choose among the likeliest tokens that have this share together (all)"),
      heading::kText);
  add(command
          ->add_option("--stop", words->stops,
                       "End where the new text ends so; again for more such texts")
          ->take_all()
          ->allow_extra_args(false),
      heading::kText);
  add(command->add_option("--seed", words->run.seed, "Seed of the choices")->capture_default_str(),
      heading::kText);
  add(add_size(*command, "--context", words->run.tokens,
               "Tokens that the model was made for, where they are more than its usual ones"),
      heading::kModel);
  add_device_options(*command, *words);
  command->callback([words] { run_generate(*words); });
}

}  // namespace mezzo::cli
