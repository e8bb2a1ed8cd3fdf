#include "mezzo/cli/options.h"

#include "mezzo/cli/option_words.h"
#include "mezzo/train/configuration.h"

namespace mezzo::cli {

train::RunOptions SharedOptions::parsed() const {
  train::RunOptions result = run;
  set_precision(*this, result);
  set_beginning(*this, result);
  set_loss(*this, result);
  set_optimizer(*this, result);
  set_schedule(*this, result);
  set_data(*this, result);
  set_watch(*this, result);
  set_device(*this, result);
  set_check(*this, result);
  set_histograms(*this, result);
  set_dump(*this, result);
  result.epochs = epochs.value_or(result.epochs);
  train::check_options(result);
  return result;
}

}  // namespace mezzo::cli
