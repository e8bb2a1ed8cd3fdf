// Segmentation: a small U-Net finds disks and squares in noisy images, in bf16 at O2.
#include <cstdio>

#include "mezzo/mezzo.h"
#include "small_unet.h"

using namespace mezzo;

int main() {
  manual_seed(1);
  const unet::Scenes scenes = unet::make_scenes(256, 1);
  const unet::Scenes others = unet::make_scenes(64, 2);
  data::TensorBatches batches(scenes.images, scenes.pixels, {.batch_size = 16});
  data::TensorBatches test_batches(others.images, others.pixels, {.shuffle = false});
  unet::UNet net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  train::Model model(net, nn::CrossEntropyLoss(), optimizer,
                     {.amp = {.level = "O2", .dtype = DType::kBf16}});
  const train::FitResult result = model.fit(12, batches, {.validation = &test_batches});
  std::printf("of the pixels of new images, %.1f %% are right\n",
              100 * result.metrics.at("accuracy"));
}
