// What a run begins with, and what of it is trained.
#pragma once

#include "mezzo/data/dataset.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/nn/module.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// Loads the weights that the options name, if any. With a new head, the head keeps what it has, and
// a warning names what else of the network and of the file does not fit. Throws what read_weights()
// throws, nn::StateMismatch where the head is not new and something does not fit, and ArgumentError
// where it is and nothing fits.
void load_weights(nn::Module& net, const FineTuning& options);

// Names the weights of the classes where they were left to the data: `balanced` becomes numbers.
// Throws ArgumentError unless there is one for each class of the data, and for a class without
// images.
void set_class_weights(LossOptions& loss, const data::Dataset& training_images);

// Throws ArgumentError if there are weights, one for each class, and all images belong to classes
// with weight 0: no mean over them is a number. `split` says in the message which images.
void check_class_weights(const LossOptions& loss, const data::Dataset& images, const char* split);

// The weights for CrossEntropyOptions, [classes] in f32 on the device; undefined if there are none.
Tensor class_weights_of(const LossOptions& loss, Device device);

}  // namespace mezzo::train
