// Subset: some images of a data set, as a set of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/data/derived.h"

namespace mezzo::data {

// Image i is image indices[i] of the source; an index may occur more than once. Classes, their
// names and the normalization are the source's, even if a class has no image left.
class Subset : public DerivedDataset {
 public:
  // `source` must outlive the subset. Throws ArgumentError unless there is an index and each is in
  // [0, source.size()).
  Subset(const Dataset& source, std::vector<std::int64_t> indices);
  // Owns the source. Also throws ArgumentError if it is null.
  Subset(std::unique_ptr<Dataset> source, std::vector<std::int64_t> indices);

  const std::vector<std::int64_t>& indices() const { return indices_; }

  std::int64_t size() const override { return std::ssize(indices_); }
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override {
    return source().read(place(index), random, pixels);
  }
  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override {
    return source().read_image(place(index), random, image);
  }
  std::int64_t label(std::int64_t index) const override { return source().label(place(index)); }
  std::string describe(std::int64_t index) const override {
    return source().describe(place(index));
  }
  std::string format(std::int64_t index) const override { return source().format(place(index)); }

 private:
  void check() const;
  std::int64_t place(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

  std::vector<std::int64_t> indices_;
};

}  // namespace mezzo::data
