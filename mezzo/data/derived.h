// Base class of data sets made from another one: it forwards everything that they do not change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

class DerivedDataset : public Dataset {
 public:
  // `owned` is the source, or null if someone else owns the source and it outlives this set.
  DerivedDataset(const Dataset& source, std::unique_ptr<Dataset> owned)
      : owned_(std::move(owned)), source_(source) {}

  std::int64_t size() const override { return source_.size(); }
  Shape image_shape() const override { return source_.image_shape(); }
  std::int64_t num_classes() const override { return source_.num_classes(); }
  std::vector<std::string> class_names() const override { return source_.class_names(); }
  Normalization normalization() const override { return source_.normalization(); }
  std::vector<float> numbers() const override { return source_.numbers(); }
  std::int64_t label(std::int64_t index) const override { return source_.label(index); }
  std::string describe(std::int64_t index) const override { return source_.describe(index); }
  std::string format(std::int64_t index) const override { return source_.format(index); }
  std::vector<UnreadableImage> left_out() const override { return source_.left_out(); }

 protected:
  const Dataset& source() const { return source_; }

 private:
  std::unique_ptr<Dataset> owned_;
  const Dataset& source_;
};

}  // namespace mezzo::data
