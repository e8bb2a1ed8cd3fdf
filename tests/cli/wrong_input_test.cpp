// Tests messages about unknown arguments and environment variables.
#include <algorithm>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>

#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;

// Wrong input ends with status 2 and exactly one line, and leaves nothing behind.
struct WrongInput {
  const char* arguments;
  const char* message;
};

TEST_F(Command, WrongInputGetsOneClearLineAndStatus2) {
  const WrongInput cases[] = {
      {"", "a command is missing. See `mezzo --help`"},
      {"--nosuch", "there is no option `--nosuch`. See `mezzo --help`"},
      {"--versio", "there is no option `--versio`. Did you mean `--version`? See `mezzo --help`"},
      {"trian", "no command `trian`. Did you mean `train`? See `mezzo --help`"},
      {"frobnicate", "no command `frobnicate`. See `mezzo --help`"},
      {"ttrainn", "no command `ttrainn`. Did you mean `train`?"},
      {"ttraiinn", "no command `ttraiinn`. See `mezzo --help`"},
      {"train --modle=lenet5", "[train] there is no option `--modle`. Did you mean `--model`?"},
      {"train --colour", "no option `--colour`. See `mezzo train --help`"},
      {"train lenet5", "`lenet5` does not belong to an option"},
      {"train --epochs", "a value is missing after `--epochs`"},
      {"train --epochs 1 --epochs 2", "`--epochs` was given twice"},
      {"compare --levels , --steps 2", "--levels: the list before `--steps` is empty"},
      {"compare --levels ,", "a value is missing after `--levels`"},
      {"train --keep-f32 , --steps 2", "--keep-f32: the list before `--steps` is empty"},
      {"train --lr fast", "--lr: `fast` is not a decimal number"},
      {"train --no-shuffle=3", "`--no-shuffle` takes no value"},
      {"eval", "[eval] --weights is required"},
      {"train --lr-init 0.1", "[--lr-init] is used only by --warmup-epochs"},
      {"train --lr-schedule steps --lr-end 0.1",
       "--lr-schedule linear, half-cosine and plateau. Give that"},
      {"train --lr-gamma 0.5", "--lr-schedule exponential. Give that"},
      {"train --model lenet6", "lenet6"},
      {"train --model lenet6", "resnet50"},
      {"train --amp O4", "O0, O1, auto, O2 and O3"},
      {"train --amp O2/f16 --dtype bf16", "`bf16` is not the dtype of the level `O2/f16`"},
      {"eval --weights x --batch-size 0", "[--batch-size] must be at least 1: 0"},
      {"train --keep-f32 fc9", "`fc9` is neither an operation nor the path of a module"},
      {"train --keep-batchnorm-fp32 maybe", "neither true nor false"},
      {"plan --model lenet6", "lenet6"},
      {"plan --batch-size 0", "--batch-size"},
      {"plan --image-size 5", "image"},
      {"train --dtype f8", "Use bf16, f16 or e4m3"},
      {"train --dtype f64", "Use bf16, f16 or e4m3"},
      {"train --loss-scale fast", "--loss-scale"},
      {"train --loss-scale -1", "--loss-scale"},
      {"train --loss-scale 0.5", "--loss-scale"},
      {"train --lr-schedule zigzag", "zigzag"},
      {"train --lr 0", "[--lr] must be positive"},
      {"train --epochs 0", "--epochs"},
      {"train --steps 0", "--steps"},
      {"train --batch-size 0", "batch"},
      {"train --batch-size 10001", "10001"},
      {"train --momentum 1", "--momentum"},
      {"train --threads -1", "--threads"},
      {"train --batch-size many", "--batch-size"},
      {"train --data mnits", "mnits"},
      {"train --data mnist:/no/such/folder", "/no/such/folder"},
      {"train --data cifar10:/no/such/folder", "/no/such/folder"},
      {"train --data images:/no/such/folder", "/no/such/folder"},
      {"train --image-size -1", "--image-size"},
      {"train --image-size 0", "--image-size: must be at least 1: 0"},
      {"export --classes 0 --out /dev/null", "--classes: must be at least 1: 0"},
      {"export --classes -1 --out /dev/null", "--classes: must be at least 1: -1"},
      {"train --image-size 5000", "image size"},
      {"train --workers -1", "--workers"},
      {"train --workers 5000", "workers"},
      {"train --weights /no/such/file", "/no/such/file"},
      {"train --json /no/such/folder/log.json", "/no/such/folder/log.json"},
      {"train --logdir /dev/null/log", "/dev/null: cannot be created"},
      {"train --label-smoothing 2", "--label-smoothing"},
      {"train --model mlp --zero-init-residual", "mlp has no residual blocks"},
      {"train --zero-init-residual --weights w.safetensors", "which --weights would replace"},
      {"train --loss-scale inf", "--loss-scale"},
      {"train --loss-scale 1e39", "--loss-scale"},
      {"train --threads 100000", "--threads"},
      {"train --report /no/such/folder/run.html", "/no/such/folder/run.html"},
      {"compare --report /no/such/folder/run.html", "/no/such/folder/run.html"},
      {"train --keep-best", "[--checkpoint-dir] is missing"},
      {"eval --weights /", "/: does not hold a checkpoint"},
      {"train --histogram-every 5", "--report"},
      {"train --activation-gradients", "--report"},
      {"train --report run.html --histogram-every -1", "--histogram-every"},
      {"train --report run.html --histogram-every 0 --activation-gradients", "--histogram-every"},
      {"train --json log --activation-gradients", "--histogram-every"},
      {"compare --levels O0,O7", "O7"},
      {"eval --model lenet5", "--weights"},
      {"bench --model resnet50 --image-size -3", "--image-size"},
      {"ops no_such_op", "no_such_op"},
      {"ops add --markdown", "--markdown"},
      {"plan lenet5 --model mlp", "--model"},
      {"eval --model lenet5 --weights ''", "--weights: the value is empty"},
      {"train --steps 010", "`010` is not a whole decimal number"},
      {"train --seed -1", "`-1` is not a whole decimal number of at least 0"},
      {"train --seed 18446744073709551616", "does not fit into 64 bits"},
      {"train --batch-size 9223372036854775808", "does not fit into 64 bits"},
      {"bench --modle mlp", "See `mezzo bench --help`"},
      {"train --save /no/such/folder/w", "[--save] /no/such/folder/w"},
      {"train --threads 0", "from 1 to 1024: 0"},
      {"eval --weights none --logits /no/such/folder/l.npy", "none"},
      {"train --model \"$(printf 'le\\nnet')\"", "`le net`"},
      {"bench --warmup 9223372036854775807", "at most 1000000000"},
      {"train --checkpoint-dir /proc/none", "/proc/none"},
      {"train --keep 5", "[--checkpoint-dir] is missing"},
      {"train --checkpoint-every 0", "[--checkpoint-dir] is missing"},
      {"export --model mlp --image-size 4000000000 --out x",
       "[mlp] images [1, 4000000000, 4000000000] have too many values to be counted"},
      {"train --amp O2/", "[--amp] `` is not a lower precision"},
      {"train --amp O2/f32", "[--amp] `f32` is not a lower precision"},
      {"train --amp O0/i64", "[--amp] `i64` is not a lower precision"},
      {"compare --levels O0/f64", "[--levels] `f64` is not a lower precision"},
      {"train --amp O0 --dtype u8", "[--dtype] `u8` is not a lower precision"},
      {"train -- --json", "`--json` follows `--`, after which no options are read"},
      {"train --threads 99999999999", "[--threads] must be from 1 to 1024: 99999999999"},
      {"train --lr 0x10", "--lr: `0x10` is not a decimal number"},
      {"train --lr 0x1p-3", "--lr: `0x1p-3` is not a decimal number"},
      {"train --lr ' 0.1'", "--lr: ` 0.1` is not a decimal number"},
      {"train --lr 0.1x", "--lr: `0.1x` is not a decimal number"},
      {"train --lr 1e400", "[--lr] must be positive and finite in f32: inf"},
      {"train --optimizer adagrad",
       "unknown optimizer `adagrad`. Known optimizers are sgd, adam, adamw, lion and rmsprop"},
      {"train --optimizer adam --momentum 0.9",
       "[--momentum] is used only by --optimizer sgd and rmsprop"},
      {"train --optimizer adamw --nesterov", "[--nesterov] is used only by --optimizer sgd"},
      {"train --optimizer rmsprop --nesterov", "[--nesterov] is used only by --optimizer sgd"},
      {"train --optimizer rmsprop --momentum 1", "[--momentum] must be in [0, 1): 1"},
      {"train --optimizer rmsprop --betas 0.9,0.99",
       "[--betas] is used only by --optimizer adam, adamw and lion"},
      {"train --optimizer lion --betas 0.9,1", "[--betas] must be in [0, 1): 1"},
      {"train --optimizer lion --eps 1e-6",
       "[--eps] is used only by --optimizer adam, adamw and rmsprop"},
      {"train --nesterov --momentum 0", "[--nesterov] needs a momentum"},
      {"train --nesterov=1", "`--nesterov` takes no value"},
      {"train --optimizer-state f16",
       "[--optimizer-state] `f16` is not a dtype of optimizer state. Use f32, bf16 or e4m3"},
      {"train --momentum 0 --optimizer-state bf16",
       "[--optimizer-state] says how state is kept, and SGD without momentum has none"},
      {"train --betas 0.9,0.99", "[--betas] is used only by --optimizer adam, adamw and lion"},
      {"train --eps 1e-6", "[--eps] is used only by --optimizer adam, adamw and rmsprop"},
      {"train --optimizer adam --betas 0.9", "[--betas] `0.9` is not two numbers"},
      {"train --optimizer adam --betas 0.9,x", "[--betas] `0.9,x` is not two numbers"},
      {"train --optimizer adam --betas 0.9,1", "[--betas] must be in [0, 1): 1"},
      {"train --optimizer adam --eps -1", "[--eps] must be positive and finite in f32: -1"},
      {"train --optimizer adamw --eps 0", "[--eps] must be positive and finite in f32: 0"},
      {"bench --optimizer adam --eps 1e-50", "[--eps] is 0 in f32, where updates are computed"},
      {"train --optimizer adam --eps tiny", "--eps: `tiny` is not a decimal number"},
      {"bench --optimizer adam --lr inf", "[--lr] must be positive and finite in f32: inf"},
      {"train --weight-decay -1", "[--weight-decay] must be 0 or more"},
      {"train --accumulate 0", "[--accumulate] must be at least 1: 0"},
      {"train --accumulate 65", "[--accumulate] a batch of 64 examples has no 65 parts"},
      {"train --accumulate 1.5", "--accumulate: `1.5` is not a whole decimal number"},
      {"train --clip 0", "[--clip] must be positive and finite in f32: 0"},
      {"bench --clip nan", "[--clip] must be positive and finite in f32: nan"},
      {"train --clip much", "--clip: `much` is not a decimal number"},
      {"train --lr-of fc3",
       "[--lr-of] `fc3` is not a learning rate of a module. Write it like fc=0.1"},
      {"train --lr-of =0.1", "[--lr-of] `=0.1` is not a learning rate of a module"},
      {"train --lr-of fc3=fast", "[--lr-of] `fc3=fast` is not a learning rate of a module"},
      {"train --lr-of fc3=0", "[--lr-of] must be positive and finite in f32: 0"},
      {"train --lr-of fc9=0.1", "[--lr-of] no parameter belongs to `fc9`"},
      {"train --lr-of fc3=0.1,fc?=0.2", "[--lr-of] `fc3` has nothing to train"},
      {"train --freeze fc3 --lr-of fc3=0.1", "[--lr-of] `fc3` has nothing to train"},
      {"train --freeze layer9.*", "[freeze] no parameter belongs to `layer9.*`"},
      {"compare --freeze layer9.*", "[freeze] no parameter belongs to `layer9.*`"},
      {"bench --freeze '*'", "[freeze] nothing is left to train: all 10 parameters"},
      {"plan --freeze conv9", "[freeze] no parameter belongs to `conv9`"},
      {"plan --graph --freeze conv9", "[freeze] no parameter belongs to `conv9`"},
      {"train --freeze ,", "a value is missing after `--freeze`"},
      {"train --head new", "[--head] new needs --weights"},
      {"train --weights w --head old", "[--head] `old` is not new"},
      {"train --weights /no/such/file --head new", "/no/such/file"},
      {"train --class-weights 1,2", "[--class-weights] there are 2 weights for 10 classes"},
      {"train --class-weights 1,-2", "[--class-weights] must be 0 or more, and finite in f32: -2"},
      {"train --class-weights 0,0", "[--class-weights] are all 0"},
      {"train --class-weights evenly", "evenly"},
      {"train --class-weights /", "[--class-weights] /: not a regular file"},
      {"train --class-weights /dev/null", "/dev/null"},
      {"eval --weights x --class-weights 1,x", "[--class-weights] `1,x` is not a list of numbers"},
      {"train --class-weights 1,1,x", "[--class-weights] `1,1,x` is not a list of numbers"},
      {"train --class-weights 1,,2", "[--class-weights] `1,,2` is not a list of numbers"},
      {"train --class-weights 1,2,", "[--class-weights] `1,2,` is not a list of numbers"},
      {"train --class-weights ,1", "[--class-weights] `,1` is not a list of numbers"},
      {"train --class-weights 3", "[--class-weights] there is 1 weight for 10 classes"},
      {"train --optimizer adam --betas 0.9,,0.99", "[--betas] `0.9,,0.99` is not two numbers"},
      {"train --freeze conv1,,conv2",
       "[train] --freeze: the list `conv1,,conv2` has an empty entry"},
      {"train --freeze=conv1,", "[train] --freeze: the list `conv1,` has an empty entry"},
      {"plan --keep-f32 conv1 ,conv2", "[plan] --keep-f32: the list `,conv2` has an empty entry"},
      {"compare --levels O0,,O2", "[compare] --levels: the list `O0,,O2` has an empty entry"},
      {"plan lenet5 --model mlp", "[plan] the network is given twice, with and without --model"},
      {"train --lr nan", "[--lr] must be positive and finite in f32: nan"},
  };
  for (const WrongInput& wrong : cases) {
    const Outcome outcome = run(wrong.arguments);
    EXPECT_EQ(outcome.status, 2) << wrong.arguments << "\n" << outcome.errors;
    EXPECT_THAT(outcome.errors, HasSubstr(wrong.message)) << wrong.arguments;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1)
        << wrong.arguments << "\n"
        << outcome.errors;
    EXPECT_EQ(outcome.output, "") << wrong.arguments;
  }
}

// A new last layer can be trained, but not evaluated.
TEST_F(Command, AdviceNamesOptionsThatThereAre) {
  ASSERT_EQ(run("train --model mlp --steps 1 --save " + path("w")).status, 0);
  const std::string misfit = " --model lenet5 --weights " + path("w");
  const Outcome trained = run("train" + misfit);
  const Outcome evaluated = run("eval" + misfit);
  EXPECT_EQ(trained.status, 2);
  EXPECT_EQ(evaluated.status, 2);
  EXPECT_THAT(trained.errors, HasSubstr("--head new"));
  EXPECT_THAT(evaluated.errors, testing::Not(HasSubstr("--head")));
}

class CommandWithVariable : public Command {
 protected:
  // The standard error of a successful command with an environment variable set.
  std::string errors_under(const char* variable, const char* value, const std::string& arguments) {
    setenv(variable, value, 1);
    const Outcome outcome = run(arguments);
    unsetenv(variable);
    EXPECT_EQ(outcome.status, 0);
    return outcome.errors;
  }
};

TEST_F(CommandWithVariable, AnUnknownLogTopicDrawsOneLine) {
  EXPECT_EQ(errors_under("MEZZO_LOG", "dispatsh,data", "plan lenet5"),
            "mezzo warning: [MEZZO_LOG] unknown topic: `dispatsh`. Use dispatch, amp, data, or all "
            "for every one.\n");
  EXPECT_EQ(errors_under("MEZZO_LOG", "data", "plan lenet5"), "");
  EXPECT_EQ(errors_under("MEZZO_LOG", "a\nb", "plan lenet5"),
            "mezzo warning: [MEZZO_LOG] unknown topic: `a b`. Use dispatch, amp, data, or all for "
            "every one.\n");
}

TEST_F(CommandWithVariable, AnUnknownKernelDrawsOneLine) {
  const char* const variable = "MEZZO_DISABLE_KERNELS";
  const char* const a_step = "train --steps 1 --quiet";
  EXPECT_THAT(errors_under(variable, "cpu_panel", a_step),
              HasSubstr("MEZZO_DISABLE_KERNELS names `cpu_panel`, but there is no such kernel"));
  EXPECT_EQ(errors_under(variable, ",", a_step), "");
  EXPECT_EQ(
      errors_under(variable, "cpu_grad_weight,cpu_pack,cpu_norm_recompute,cpu_grad_rows", a_step),
      "");
  const char* const former_names = "cpu_panels,cpu_taps,cpu_whole,cpu_norm_again";
  EXPECT_EQ(errors_under(variable, former_names, a_step), "");
}

}  // namespace
}  // namespace mezzo::cli_tests
