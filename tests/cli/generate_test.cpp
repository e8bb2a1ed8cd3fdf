// Tests mezzo generate, with weights of gpt-tiny that answer any text in a way that is known.
#include <algorithm>
#include <fstream>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/io/safetensors.h"
#include "mezzo/models/model.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

class Generate : public Command {
 protected:
  // Weights that answer with one byte: the last norm gives the byte's own row of the table, whose
  // product with itself is the largest.
  std::string weights_for(char byte) const {
    const auto net = models::create("gpt-tiny", models::usual_config("gpt-tiny"));
    const std::vector<NamedTensor> state = net->state();
    const auto named = [&](const char* name) {
      return std::ranges::find(state, name, &NamedTensor::name)->tensor;
    };
    const Tensor table = named("wte.weight");
    const Tensor scale = named("ln_f.weight");
    const Tensor shift = named("ln_f.bias");
    std::fill_n(scale.mutable_data<float>(), scale.numel(), 0.0F);
    const float* const row = table.data<float>() + static_cast<unsigned char>(byte) * shift.numel();
    for (std::int64_t i = 0; i < shift.numel(); ++i) shift.mutable_data<float>()[i] = 1000 * row[i];
    io::write_safetensors(path("w"), state);
    return path("w");
  }
  std::string random_weights() const {
    manual_seed(1);
    const auto net = models::create("gpt-tiny", models::usual_config("gpt-tiny"));
    io::write_safetensors(path("w"), net->state());
    return path("w");
  }

  Outcome generate(const std::string& options) const {
    return run("generate --model gpt-tiny --weights " + path("w") + " " + options);
  }
  std::string text(const std::string& options) const {
    const Outcome outcome = generate(options);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    return outcome.output;
  }
};

TEST_F(Generate, WritesThePromptAndWhatFollows) {
  weights_for('a');
  EXPECT_EQ(text("--prompt 'so, ' --tokens 3"), "so, aaa\n");
  EXPECT_EQ(text("--prompt so --tokens 2 --temperature 0 --amp O0"), "soaa\n");
  EXPECT_EQ(text("--prompt one --prompt two,three --prompt four --tokens 1"),
            "onea\ntwo,threea\nfoura\n");
  EXPECT_EQ(text("--prompt so --tokens 9 --stop aaa --stop b"), "soaaa\n");
}

TEST_F(Generate, TakesPromptsFromAFile) {
  weights_for('a');
  std::ofstream(path("prompts")) << "one\ntwo, three\r\nfour\n";
  EXPECT_EQ(text("--prompt zero --tokens 2 --prompts " + path("prompts")),
            "zeroaa\noneaa\ntwo, threeaa\nfouraa\n");
}

// Each text is the one that its prompt alone has with its seed: --seed plus its number.
TEST_F(Generate, PromptsDoNotDependOnEachOther) {
  random_weights();
  const std::vector<std::string> prompts = {"a", "some words", "some", "a"};
  std::string together;
  std::string alone;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    together += concat(" --prompt '", prompts[i], "'");
    alone += text(concat("--amp O0 --tokens 12 --seed ", 5 + i, " --prompt '", prompts[i], "'"));
  }
  EXPECT_EQ(text("--amp O0 --tokens 12 --seed 5" + together), alone);
}

TEST_F(Generate, ShowsOnlyCharacters) {
  weights_for('\xC3');
  EXPECT_EQ(text("--prompt é --tokens 2"), "é\uFFFD\uFFFD\n");
  weights_for('\x1B');
  EXPECT_EQ(text("--prompt x --tokens 1"), "x\uFFFD\n");
}

TEST_F(Generate, IsTheSameForTheSameSeed) {
  random_weights();
  const std::string first = text("--prompt x --tokens 20 --seed 3");
  EXPECT_EQ(text("--prompt x --tokens 20 --seed 3"), first);
  EXPECT_NE(text("--prompt x --tokens 20 --seed 4"), first);
  EXPECT_NE(text("--prompt x --tokens 20 --seed 3 --temperature 0.1"), first);
  EXPECT_NE(text("--prompt x --tokens 20 --seed 3 --top-k 2"), first);
  EXPECT_NE(text("--prompt x --tokens 20 --seed 3 --top-p 0.01"), first);
}

TEST_F(Generate, SaysWhatIsWrong) {
  const auto expect_refused = [&](const std::string& options, const std::string& message) {
    const Outcome outcome = run("generate " + options);
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.errors, HasSubstr(message));
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
  };
  const std::string tiny = "--model gpt-tiny --weights w --prompt x ";
  expect_refused("--model lenet5 --weights w --prompt x", "lenet5 does not predict tokens");
  expect_refused("--model gpt-tiny --weights w", "[--prompt] is missing");
  std::ofstream(path("gap")) << "one\n\ntwo\n";
  std::ofstream(path("nothing")) << "";
  expect_refused(tiny + "--prompts " + path("gap"), "gap: line 2 is empty");
  expect_refused(tiny + "--prompts " + path("nothing"), "nothing: there is no line");
  expect_refused(tiny + "--prompts " + path("none"), "[--prompts] ");
  expect_refused(tiny + "--tokens 0", "[--tokens] must be at least 1: 0");
  expect_refused(tiny + "--top-p 2", "top_p must be in (0, 1], not 2");
  expect_refused(tiny + "--tokenizer " + path("none"), "none");
  expect_refused("--model gpt2 --weights w --prompt x",
                 "[--tokenizer] the model has 50257 tokens, which are not bytes");
  expect_refused(tiny, "w");
}

}  // namespace
}  // namespace mezzo::cli_tests
