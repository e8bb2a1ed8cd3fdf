// Tuning: which dtype each operation of a U-Net computes in is measured, and written to a file.
#include <cstdio>

#include "mezzo/mezzo.h"
#include "small_unet.h"

using namespace mezzo;

int main() {
  manual_seed(1);
  const unet::Scenes scenes = unet::make_scenes(32, 1);
  unet::UNet net;
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(net, nn::CrossEntropyLoss(), optimizer, amp::GradScaler({}, false));
  const Batch batch{.inputs = {scenes.images}, .labels = {scenes.pixels}};
  const tune::TuneResult result = amp::tune(step, {batch}, {.model = "U-Net"});

  for (const tune::ProvedSetting& setting : result.settings) {
    std::printf("%-30s %6.2f ms, error %s%s\n", setting.name.c_str(), setting.ms,
                tune::error_text(setting.error.total).c_str(),
                &setting == &result.settings[result.chosen] ? ", chosen" : "");
  }
  for (const amp::PlanRow& row : result.plan.rows) {
    std::printf("%-28s %-5s %s\n", row.text().c_str(), name_of(row.dtype), row.reason.c_str());
  }
  amp::write_plan("unet_plan.json", result.plan);

  // The step goes on under the plan; another program would read it and apply it:
  unet::UNet other;
  amp::apply_plan(other, amp::read_plan("unet_plan.json"));
  std::remove("unet_plan.json");
  std::printf("loss of a step: %.4f\n", step(batch).loss);
}
