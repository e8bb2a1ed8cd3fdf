// What the options of a run must be, what follows from them, and what a checkpoint keeps of them.
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

// More epochs than these could not be counted in steps.
inline constexpr std::int64_t kMostEpochs = 1'000'000'000;

// Throws ArgumentError naming the first option that cannot work, whatever model and data are.
void check_options(const RunOptions& options);

// Names the size of the images that a run has, [c, h, w], where it was left to the data. Of images
// that are not square it stays theirs.
void set_image_size(RunOptions& options, const Shape& image);

// The learning rates of a run with so many steps.
Schedule schedule_of(const RunOptions& options, std::int64_t steps_per_epoch,
                     std::int64_t total_steps);

// As the option names it; empty by default.
std::string text_of(const LossScaling& scaling);

// What the options of a run were, by name.
using Configuration = std::map<std::string, std::string>;

// What must not change when a run goes on. Steps and epochs may: a run can be made longer.
Configuration configuration_of(const RunOptions& options);

// Throws ArgumentError naming the first option that was another one when the checkpoint was
// written: the run that goes on would not be the run that was begun.
void check_configuration(const io::Checkpoint& checkpoint, const Configuration& now);
void add_configuration(io::Checkpoint& checkpoint, const Configuration& configuration);

}  // namespace mezzo::train
