#include "mezzo/data/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

constexpr int kByteValues = 256;

template <class T>
constexpr bool kMakesImages = ImageTransform<std::decay_t<T>>;

bool makes_images(const Transform& transform) {
  return std::visit([](const auto& step) { return kMakesImages<decltype(step)>; }, transform);
}

// Of a transform that makes images.
Shape output_shape(const Transform& transform, const Shape& input) {
  return std::visit(
      [&]<class Step>(const Step& step) -> Shape {
        if constexpr (ImageTransform<Step>) {
          return step.output_shape(input);
        } else {
          return input;
        }
      },
      transform);
}

void apply(const Transform& transform, const ImageView& in, Generator& random,
           std::span<std::uint8_t> out) {
  std::visit(
      [&]<class Step>(const Step& step) {
        if constexpr (ImageTransform<Step>) step.apply(in, random, out);
      },
      transform);
}

// What a transform that makes numbers makes of those before it, [channels, 256].
void change_numbers(const Transform& transform, std::int64_t channels,
                    std::vector<float>& numbers) {
  std::visit(
      [&]<class Step>(const Step& step) {
        if constexpr (!ImageTransform<Step>) {
          step.check(channels);
          for (std::size_t i = 0; i < numbers.size(); ++i) {
            numbers[i] = step.value(numbers[i], i / kByteValues);
          }
        }
      },
      transform);
}

// What the two kinds of data sets here share: all that they do not change.
class Derived : public Dataset {
 public:
  // `owned` is the source or null.
  Derived(const Dataset& source, std::unique_ptr<Dataset> owned)
      : owned_(std::move(owned)), source_(source) {}

  std::int64_t size() const override { return source_.size(); }
  Shape image_shape() const override { return source_.image_shape(); }
  std::int64_t num_classes() const override { return source_.num_classes(); }
  std::vector<std::string> class_names() const override { return source_.class_names(); }
  Normalization normalization() const override { return source_.normalization(); }
  std::vector<float> numbers() const override { return source_.numbers(); }
  std::int64_t label(std::int64_t index) const override { return source_.label(index); }
  std::string describe(std::int64_t index) const override { return source_.describe(index); }

 protected:
  const Dataset& source() const { return source_; }

 private:
  std::unique_ptr<Dataset> owned_;
  const Dataset& source_;
};

class Transformed final : public Derived {
 public:
  Transformed(const Dataset& source, std::unique_ptr<Dataset> owned,
              std::vector<Transform> transforms)
      : Derived(source, std::move(owned)), image_steps_(std::move(transforms)) {
    const auto numeric = std::ranges::find_if_not(image_steps_, makes_images);
    check_arg(std::all_of(numeric, image_steps_.end(),
                          [](const Transform& step) { return !makes_images(step); }),
              "map", "a transform of images comes after one that makes numbers. Put Rescale and ",
              "Normalize last");
    shape_ = source.image_shape();
    for (auto step = image_steps_.begin(); step != numeric; ++step) {
      shape_ = output_shape(*step, shape_);
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
              " becomes ", last, ", which is no place for it. Resize to one size");
    apply(image_steps_.back(), image.view(), random, pixels);
    return label;
  }

  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override {
    if (image_steps_.empty()) return source().read_image(index, random, image);
    Image before;
    const std::int64_t label = source().read_image(index, random, before);
    run_first_steps(index, random, before);
    image.reshape(shape_after(image_steps_.back(), index, before.shape));
    apply(image_steps_.back(), before.view(), random, image.pixels);
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

  // All but the last, whose result goes where the caller wants it.
  void run_first_steps(std::int64_t index, Generator& random, Image& image) const {
    Image next;
    for (auto step = image_steps_.begin(); step + 1 != image_steps_.end(); ++step) {
      next.reshape(shape_after(*step, index, image.shape));
      apply(*step, image.view(), random, next.pixels);
      std::swap(image, next);
    }
  }

  // Known to work where images have one size; else it is this image's fault if it does not.
  Shape shape_after(const Transform& step, std::int64_t index, const Shape& shape) const {
    try {
      return output_shape(step, shape);
    } catch (const ArgumentError& error) {
      fail<ArgumentError>("map", describe(index), ": ", error.what());
    }
  }

  std::vector<Transform> image_steps_;
  Shape shape_;
  std::vector<float> numbers_;
};

class Repeated final : public Derived {
 public:
  Repeated(const Dataset& source, std::unique_ptr<Dataset> owned, std::int64_t times)
      : Derived(source, std::move(owned)), times_(times) {
    check_arg(times >= 1, "repeat", "a set can be repeated once or more: ", times);
    check_arg(times <= std::numeric_limits<std::int64_t>::max() / source.size(), "repeat",
              "too many: ", times, " times ", source.size(), " images. Repeat it less often");
  }

  std::int64_t size() const override { return times_ * source().size(); }
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override {
    return source().read(index % source().size(), random, pixels);
  }
  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override {
    return source().read_image(index % source().size(), random, image);
  }
  std::int64_t label(std::int64_t index) const override {
    return source().label(index % source().size());
  }
  std::string describe(std::int64_t index) const override {
    return source().describe(index % source().size());
  }

 private:
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
