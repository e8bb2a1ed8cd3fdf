// Fuzzes command lines, one argument per line: they are parsed, checked and turned into a schedule,
// but not run.
#include "mezzo/cli/options.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/train/configuration.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// A parser with the options of `mezzo train` and the levels of `mezzo compare`. It is created once,
// since that takes longer than using it.
struct Parser {
  Parser() {
    cli::add_precision_options(app, options, cli::OfferedModels::kWithData);
    cli::add_plan_watch_option(app, options);
    cli::add_loss_scale_option(app, options);
    cli::add_beginning_options(app, options);
    cli::add_training_data_options(app, options);
    cli::add_class_weights_option(app, options);
    cli::add_optimizer_options(app, options);
    cli::add_schedule_options(app, options);
    cli::add_watch_options(app, options);
    cli::add_execution_options(app, options);
    cli::add_checkpoint_options(app, options);
    cli::add_output_options(app, options);
    cli::add_report_options(app, options);
    app.add_option("--levels", levels)->delimiter(',');
  }

  CLI::App app{"fuzz"};
  cli::SharedOptions options{};
  std::vector<std::string> levels{};
};

// The options of these lines, independent of earlier lines.
const Parser& parsed(const std::vector<std::string>& lines) {
  static Parser parser;
  parser.options = {};
  parser.levels.clear();
  std::vector<const char*> arguments{"mezzo"};
  for (const std::string& line : lines) arguments.push_back(line.c_str());
  try {
    parser.app.parse(static_cast<int>(arguments.size()), arguments.data());
    return parser;
  } catch (const CLI::ParseError& error) {  // wrong usage, for which the command exits with 2
    fail<ArgumentError>("options", error.what());
  }
}

// Requires that accepted options give finite rates and a finite scale.
void check_rates(const train::RunOptions& run) {
  constexpr std::int64_t kStepsPerEpoch = 7;
  constexpr std::int64_t kMostSteps = 50;
  const std::int64_t epochs = std::min(run.epochs, kMostSteps / kStepsPerEpoch);
  const train::Schedule schedule = train::schedule_of(run, kStepsPerEpoch, epochs * kStepsPerEpoch);
  require(std::ranges::all_of(schedule.values(), [](double lr) { return std::isfinite(lr); }),
          "every learning rate is finite");
}

}  // namespace

void read(Input input) {
  const Parser& said = parsed(lines_of(text_of(input)));
  const train::RunOptions run = said.options.parsed();
  for (const std::string& level : said.levels) {
    static_cast<void>(cli::parse_policy(level, said.options.dtype));
  }
  train::check_options(run);
  static_cast<void>(train::configuration_of(run));
  require(run.loss_scale.kind != train::LossScaling::Kind::kStatic ||
              std::isfinite(run.loss_scale.scale),
          "a fixed loss scale is a number");
  check_rates(run);
}

std::vector<Bytes> seeds() {
  return {
      bytes_of(""),
      bytes_of("--model\nlenet5\n--amp\nO3\n--dtype\nf16\n--loss-scale\n1024\n--seed=7"),
      bytes_of("--keep-f32\nadd,fc,layer4.*\n--lower=softmax\n--keep-batchnorm-fp32\nfalse"),
      bytes_of("--bad-images\nskip\n--mixup\n0.2\n--cutmix\n1"),
      bytes_of("--levels\nO0,O1/bf16,auto,O2/f16\n--loss-scale\ndynamic\n--no-shuffle"),
      bytes_of("--lr-schedule\nlinear\n--lr\n0.1\n--lr-init\n0.01\n--lr-end\n1e-5"
               "\n--warmup-epochs\n0.5\n--epochs\n3"),
      bytes_of("--lr-schedule\nexponential\n--lr-gamma\n0.5\n--momentum\n0\n--weight-decay"
               "\n1e-4\n--label-smoothing\n0.1\n--steps\n20\n--batch-size\n8"),
      bytes_of("--optimizer\nadamw\n--betas\n0.8,0.99\n--eps\n1e-6\n--accumulate\n4\n--clip\n1.5"
               "\n--lr-of\nfc3=0.1,conv?=1e-4\n--class-weights\nbalanced"),
      bytes_of("--weights\nw.safetensors\n--head\nnew\n--freeze\nconv1,layer1.*\n--nesterov"
               "\n--class-weights\n1,0.5,2"),
      bytes_of("--lr-schedule\nplateau\n--lr-factor\n0.5\n--lr-patience\n3\n--lr-cooldown\n1"
               "\n--lr-end\n1e-4\n--monitor\nacc\n--warmup-epochs\n0.5"),
      bytes_of("--ema\n0.999\n--ema-warmup\n--early-stop\n5\n--monitor\nval_loss"),
      bytes_of("--checkpoint-dir\nfolder\n--checkpoint-every\n5\n--keep\n2\n--resume"
               "\n--report\nx.html\n--histogram-every\n3\n--activation-gradients\n--quiet")};
}

}  // namespace mezzo::fuzz
