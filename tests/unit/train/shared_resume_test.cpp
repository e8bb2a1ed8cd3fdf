// Tests that a network whose modules share a weight resumes bit for bit; the checkpoint holds the
// weight, and the optimizer's state for it, once.
#include <filesystem>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/core/random.h"
#include "mezzo/data/tensor_batches.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/optim/adam.h"
#include "mezzo/train/checkpointing.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/data/temp_folder.h"

namespace mezzo::train {
namespace {

class Projection : public nn::Module {
 public:
  Projection(const Tensor& weight, bool back) : weight_(weight), back_(back) {
    add_parameter("weight", weight_);
  }
  Tensor forward(const Tensor& x) override { return matmul(x, weight_, {.transpose_b = !back_}); }

 private:
  Tensor weight_;
  bool back_;
};

// Maps images [n, 1, 8, 8] to 64 logits with one weight that is used twice.
class TiedNet : public nn::Module {
 public:
  TiedNet() {
    add("decoder", decoder_);
    add("encoder", encoder_);
  }
  Tensor forward(const Tensor& x) override { return decoder_(relu(encoder_(flatten(x, 1)))); }

 private:
  Tensor weight_ = randn({5, 64}) * 0.1;
  Projection encoder_{weight_, false};
  Projection decoder_{weight_, true};
};

struct TiedTraining {
  explicit TiedTraining(DType params) {
    manual_seed(1);
    net = std::make_unique<TiedNet>();
    if (params != DType::kF32) amp::half_parameters(*net, params);
    optimizer = std::make_unique<optim::Adam>(net->parameters(), optim::AdamOptions{.lr = 0.01});
    step = std::make_unique<amp::TrainStep>(*net, amp::class_loss, *optimizer,
                                            amp::GradScaler({}, false));
  }

  void do_steps(int count) {
    for (int i = 0; i < count; ++i) {
      data::Batch batch;
      ASSERT_TRUE(batches.next(batch));
      (*step)(batch.images, batch.labels);
    }
  }
  TrainingState state() { return {*step, batches}; }

  amp::Batch examples = amp::small_batch(3, 24);
  data::TensorBatches batches{examples.images, examples.labels, {.batch_size = 4, .seed = 5}};
  std::unique_ptr<TiedNet> net;
  std::unique_ptr<optim::Adam> optimizer;
  std::unique_ptr<amp::TrainStep> step;
};

TEST(SharedResume, IsBitForBit) {
  for (const DType params : {DType::kF32, DType::kBf16}) {
    TiedTraining whole(params);
    whole.do_steps(2);
    const data::TempFolder folder;
    const std::string path = io::write_checkpoint(folder.path(), capture(whole.state(), 2));
    whole.do_steps(3);

    TiedTraining second(params);
    restore(second.state(), io::read_checkpoint(path));
    second.do_steps(3);
    EXPECT_EQ(amp::everything(*second.net, *second.optimizer),
              amp::everything(*whole.net, *whole.optimizer));
    EXPECT_EQ(second.net->parameters().size(), 1);
    EXPECT_EQ(second.net->state()[0].tensor.impl(), second.net->state()[1].tensor.impl());
  }
}

TEST(SharedResume, TheWeightIsWrittenOnce) {
  TiedTraining training(DType::kF32);
  training.do_steps(1);
  const data::TempFolder folder;
  const std::string path = io::write_checkpoint(folder.path(), capture(training.state(), 1));
  constexpr std::uintmax_t kWeightBytes = 5 * 64 * 4;
  EXPECT_LT(std::filesystem::file_size(path + "/model.safetensors"), 2 * kWeightBytes);
  EXPECT_LT(std::filesystem::file_size(path + "/optimizer.safetensors"), 3 * kWeightBytes);
  TiedNet other;
  other.load_state(read_weights(path));
  EXPECT_EQ(other.parameters()[0].to_vector<float>(),
            training.net->parameters()[0].to_vector<float>());
}

}  // namespace
}  // namespace mezzo::train
