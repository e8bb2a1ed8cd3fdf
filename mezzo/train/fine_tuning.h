// Initial weights, frozen parts and class weights of a run.
#pragma once

#include "mezzo/data/dataset.h"
#include "mezzo/nn/freeze.h"
#include "mezzo/nn/module.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// Loads the weights that the options name, if any, in the layout of state() or of the model's files
// (models/weight_files.h). With a new head, the head keeps its weights, and a warning names
// everything else in the network and in the file that does not match. Throws what read_weights()
// throws; nn::StateMismatch if the head is not new and something does not match; ArgumentError if
// the head is new and nothing matches.
void load_weights(nn::Module& net, const FineTuning& options);

// Fills in class weights that depend on the data: `balanced` becomes numbers. Throws ArgumentError
// unless there is one weight for each class of the data, and for a class without images.
void set_class_weights(LossOptions& loss, const data::Dataset& training_images);

// Throws ArgumentError if all images belong to classes with weight 0, because the mean over them
// would not be a number. Without weights it does nothing. `split` names the images in the message.
void check_class_weights(const LossOptions& loss, const data::Dataset& images, const char* split);

// The weights for CrossEntropyOptions, [classes] in f32 on the device; undefined without weights.
Tensor class_weights_of(const LossOptions& loss, Device device);

}  // namespace mezzo::train
