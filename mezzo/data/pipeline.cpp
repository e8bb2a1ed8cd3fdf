#include "mezzo/data/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/derived.h"

namespace mezzo::data {
namespace {

// Applies a transform of values to the table `numbers`, [channels, 256].
void change_numbers(const Transform& transform, std::int64_t channels,
                    std::vector<float>& numbers) {
  transform.check(channels);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = transform.value(numbers[i], i / kByteValues);
  }
}

class Transformed final : public DerivedDataset {
 public:
  Transformed(const Dataset& source, std::unique_ptr<Dataset> owned,
              std::vector<Transform> transforms)
      : DerivedDataset(source, std::move(owned)), image_steps_(std::move(transforms)) {
    const auto numeric = std::ranges::find_if_not(image_steps_, &Transform::makes_images);
    check_arg(
        std::all_of(numeric, image_steps_.end(),
                    [](const Transform& step) { return !step.makes_images(); }),
        "map",
        "a transform of images follows one that gives floating-point values. Put Rescale and ",
        "Normalize last");
    shape_ = source.image_shape();
    for (auto step = image_steps_.begin(); step != numeric; ++step) {
      shape_ = step->output_shape(shape_);
    }
    make_numbers({numeric, image_steps_.end()});
    image_steps_.erase(numeric, image_steps_.end());
  }

  Shape image_shape() const override { return shape_; }
  std::vector<float> numbers() const override { return numbers_; }

  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override {
    if (image_steps_.empty()) return source().read(index, random, pixels);
    Image image;
    const std::int64_t label = source().read_image(index, random, image);
    run_first_steps(index, random, image);
    const Shape last = shape_after(image_steps_.back(), index, image.shape);
    check_arg(static_cast<std::size_t>(last.numel()) == pixels.size(), "map", describe(index),
              " becomes ", last, ", which this transform cannot take. Resize to one size");
    image_steps_.back().apply(image.view(), random, pixels);
    return label;
  }

  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override {
    if (image_steps_.empty()) return source().read_image(index, random, image);
    Image before;
    const std::int64_t label = source().read_image(index, random, before);
    run_first_steps(index, random, before);
    image.reshape(shape_after(image_steps_.back(), index, before.shape));
    image_steps_.back().apply(before.view(), random, image.pixels);
    return label;
  }

 private:
  void make_numbers(const std::vector<Transform>& steps) {
    if (steps.empty()) {
      numbers_ = source().numbers();
      return;
    }
    const std::int64_t channels = shape_[0];
    for (std::int64_t i = 0; i < channels * kByteValues; ++i) {
      numbers_.push_back(static_cast<float>(i % kByteValues));
    }
    for (const Transform& step : steps) change_numbers(step, channels, numbers_);
  }

  // Runs all steps but the last, whose result goes directly to the caller.
  void run_first_steps(std::int64_t index, Generator& random, Image& image) const {
    Image next;
    for (auto step = image_steps_.begin(); step + 1 != image_steps_.end(); ++step) {
      next.reshape(shape_after(*step, index, image.shape));
      step->apply(image.view(), random, next.pixels);
      std::swap(image, next);
    }
  }

  // Always succeeds where all images have one size; otherwise an error names this image.
  Shape shape_after(const Transform& step, std::int64_t index, const Shape& shape) const {
    try {
      return step.output_shape(shape);
    } catch (const ArgumentError& error) {
      fail<ArgumentError>("map", describe(index), ": ", error.what());
    }
  }

  std::vector<Transform> image_steps_;
  Shape shape_;
  std::vector<float> numbers_;
};

class Repeated final : public DerivedDataset {
 public:
  Repeated(const Dataset& source, std::unique_ptr<Dataset> owned, std::int64_t times)
      : DerivedDataset(source, std::move(owned)), times_(times) {
    check_arg(times >= 1, "repeat", "a set can be repeated once or more: ", times);
    check_arg(times <= std::numeric_limits<std::int64_t>::max() / source.size(), "repeat",
              "too many: ", times, " times ", source.size(), " images. Repeat it less often");
  }

  std::int64_t size() const override { return times_ * source().size(); }
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
  std::int64_t place(std::int64_t index) const { return index % source().size(); }

  std::int64_t times_;
};

}  // namespace

std::unique_ptr<Dataset> map(std::unique_ptr<Dataset> source, std::vector<Transform> transforms) {
  check_arg(source != nullptr, "map", "the data set is null. Open one first");
  const Dataset& reference = *source;
  return std::make_unique<Transformed>(reference, std::move(source), std::move(transforms));
}

std::unique_ptr<Dataset> map(const Dataset& source, std::vector<Transform> transforms) {
  return std::make_unique<Transformed>(source, nullptr, std::move(transforms));
}

std::unique_ptr<Dataset> repeat(std::unique_ptr<Dataset> source, std::int64_t times) {
  check_arg(source != nullptr, "repeat", "the data set is null. Open one first");
  const Dataset& reference = *source;
  return std::make_unique<Repeated>(reference, std::move(source), times);
}

std::unique_ptr<Dataset> repeat(const Dataset& source, std::int64_t times) {
  return std::make_unique<Repeated>(source, nullptr, times);
}

}  // namespace mezzo::data
