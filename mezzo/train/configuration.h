// Checks the options of a run, derives settings from them, and stores them in checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "mezzo/core/shape.h"
#include "mezzo/io/checkpoint.h"
#include "mezzo/train/schedule.h"

namespace mezzo::train {

struct LossScaling;
struct RunOptions;

// With more epochs than this, steps could overflow their counter.
inline constexpr std::int64_t kMostEpochs = 1'000'000'000;

// Throws ArgumentError naming the first option that is invalid for every model and data set.
void check_options(const RunOptions& options);

// Fills in the run's image size from the images, [c, h, w], where it was left to the data. For
// images that are not square, the size stays unset.
void set_image_size(RunOptions& options, const Shape& image);

// The learning rates of a run with that many steps.
Schedule schedule_of(const RunOptions& options, std::int64_t steps_per_epoch,
                     std::int64_t total_steps);

// The scaling as the option spells it; empty by default.
std::string text_of(const LossScaling& scaling);

// The options of a run, by name.
using Configuration = std::map<std::string, std::string>;

// The options that must not change when a run resumes. Steps and epochs may, to make a run longer.
Configuration configuration_of(const RunOptions& options);

// Throws ArgumentError naming the first option that was different when the checkpoint was written:
// the resumed run would not continue the original one.
void check_configuration(const io::Checkpoint& checkpoint, const Configuration& now);
void add_configuration(io::Checkpoint& checkpoint, const Configuration& configuration);

}  // namespace mezzo::train
