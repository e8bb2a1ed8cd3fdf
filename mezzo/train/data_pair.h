// The training and test sets of a run, and the batches that it takes from them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mezzo/data/batch_source.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/open.h"
#include "mezzo/data/token_set.h"
#include "mezzo/train/example.h"
#include "mezzo/train/run_options.h"

namespace mezzo::train {

// The training and test sets of one spec, opened once and shared by the runs of a comparison:
// images or, for a language model, tokens.
struct DataPair {
  std::unique_ptr<data::Dataset> train{};  // null if there are tokens
  std::unique_ptr<data::Dataset> test{};
  std::unique_ptr<data::TokenSet> train_tokens{};  // null if there are images
  std::unique_ptr<data::TokenSet> test_tokens{};

  bool has_tokens() const { return train_tokens != nullptr; }
};

// Throws what open_dataset() throws, and ArgumentError if the images of the two sets differ in
// shape.
DataPair open_data(const std::string& spec, const data::OpenOptions& options = {});
// The sets of a run: its data, image size and augmentation, or its tokens, with the vocabulary of
// the model. Also throws ArgumentError as check_data() does.
DataPair open_data(const RunOptions& options);

// The test set of a run alone, as an evaluation needs it. Throws what open_data() throws.
DataPair open_test_data(const RunOptions& options);

// Throws ArgumentError, saying what to do, unless the model of a run reads what its data are,
// images or tokens, and for options that are not for such data; also for models that classify
// sequences, for which there are no data sets.
void check_data(const RunOptions& options);

// What the model reads of these sets. Only the test sets are looked at.
ExampleKind example_of(const RunOptions& options, const DataPair& data);

// Fills in what the options leave to the data or the model: the image size or the number of tokens.
void fit_to_data(RunOptions& options, const DataPair& data);

// Calls set_class_weights() with the training images. Also throws ArgumentError if no image of one
// of the two sets would count. Does nothing for tokens, which have no class weights.
void set_class_weights(LossOptions& loss, const DataPair& data);

// The images, or the sequences of tokens, of an epoch; of tokens, as many as follow one another.
std::int64_t examples_per_epoch(const RunOptions& options, const DataPair& data);

// The batches of a run's training: shuffled, of the shard of this process, all of them full.
std::unique_ptr<data::BatchSource> training_batches(const RunOptions& options,
                                                    const DataPair& data);
// All of the test set in order. Sequences of tokens follow one another.
std::unique_ptr<data::BatchSource> test_batches(const RunOptions& options, const DataPair& data);

}  // namespace mezzo::train
