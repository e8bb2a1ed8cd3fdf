// Tests mezzo export, and the logits of mezzo eval.
#include <gmock/gmock.h>

#include "mezzo/data/loader.h"
#include "mezzo/data/open.h"
#include "mezzo/io/npy.h"
#include "mezzo/ops/losses.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Command, ExportWritesTrainedWeights) {
  ASSERT_EQ(run("train --model mlp --steps 1 --quiet --save " + path("mlp")).status, 0);
  const Outcome outcome =
      run("export --model mlp --weights " + path("mlp") + " --out " + path("mlp.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("mlp.onnx: mlp for images [N, 1, 28, 28], 10 classes"));
  // The exact bytes of fc2.weight, which both files store.
  const std::string weights = read_text("mlp");
  const std::string network = read_text("mlp.onnx");
  EXPECT_NE(network.find(weights.substr(weights.size() - 4096)), std::string::npos);
}

TEST_F(Command, ExportTakesOtherSizes) {
  const Outcome outcome = run(
      "export --model resnet18 --channels 1 --classes 7 --image-size 33 --out " + path("net.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("[N, 1, 33, 33], 7 classes"));
}

TEST_F(Command, ExportLeavesTheLengthOfALanguageModelOpen) {
  const Outcome outcome = run("export --model gpt-tiny --out " + path("net.onnx"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("gpt-tiny for sequences [N, T], 256 classes"));
}

TEST_F(Command, ExportSaysWhatIsWrong) {
  EXPECT_THAT(run("export --model mlp").errors, HasSubstr("--out"));
  for (const std::string& options : {"--model mlp --weights " + path("missing"),
                                     std::string("--model lenet5 --image-size 64")}) {
    const Outcome outcome = run("export " + options + " --out " + path("net.onnx"));
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.errors, StartsWith("mezzo: [")) << options;
    EXPECT_FALSE(fs::exists(path("net.onnx"))) << options;
  }
}

TEST_F(Command, EvalWritesTheLogitsItJudges) {
  ASSERT_EQ(run("train --model mlp --steps 3 --quiet --save " + path("mlp")).status, 0);
  const Outcome outcome = run("eval --model mlp --batch-size 100 --weights " + path("mlp") +
                              " --logits " + path("logits.npy") + " --json " + path("log.json"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Tensor logits = io::read_npy(path("logits.npy"));
  const auto digits = data::open_dataset("digits", data::Split::kTest);
  EXPECT_EQ(logits.shape(), (Shape{digits->size(), 10}));
  EXPECT_EQ(logits.dtype(), DType::kF32);
  data::DataLoader loader(*digits, {.batch_size = digits->size(), .shuffle = false});
  data::Batch all;
  ASSERT_TRUE(loader.next(all));
  EXPECT_NEAR(cross_entropy(logits, all.labels).item(), read_events("log.json").back()["loss"],
              1e-5);
}

}  // namespace
}  // namespace mezzo::cli_tests
