// Dataset: numbered images, each with a class label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/data/image.h"

namespace mezzo::data {

enum class Split : std::uint8_t { kTrain, kTest };

// How pixels become network inputs: (pixel / 255 - mean[c]) / deviation[c] for channel c.
struct Normalization {
  std::vector<float> mean{};
  std::vector<float> deviation{};

  bool operator==(const Normalization&) const = default;
};

// For MNIST and every other grey set.
Normalization grey_normalization();
// For CIFAR-10 and the generated set `shapes`.
Normalization cifar10_normalization();
// For ImageNet and folders of images.
Normalization imagenet_normalization();

// The values that a byte of an image has.
inline constexpr int kByteValues = 256;

// The value of byte b in channel c, at [c * kByteValues + b]. It is computed in f32 in the order of
// operations above, as other frameworks do, so that the same image gives the same values. Throws
// ArgumentError unless there is one mean and one positive deviation per channel.
std::vector<float> numbers_of(const Normalization& normalization, std::int64_t channels);

// An image that cannot be read.
struct UnreadableImage {
  std::string name{};  // as in describe()
  std::string why{};   // the message of the error
};

// A numbered set of images. Reading is const and may happen on several threads at once.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  // The number of images, at least 1.
  virtual std::int64_t size() const = 0;
  // [channels, height, width]; a height and width of 0 if the images differ in size.
  virtual Shape image_shape() const = 0;
  virtual std::int64_t num_classes() const = 0;
  // Names of the labels, in order; empty if labels are plain numbers.
  virtual std::vector<std::string> class_names() const { return {}; }
  // One mean and one deviation per channel.
  virtual Normalization normalization() const = 0;
  // The value of each byte in a batch, as in numbers_of(); by default from normalization().
  virtual std::vector<float> numbers() const;

  // Writes image `index` to `pixels` (height * width * channels bytes, channels innermost) and
  // returns its label, in [0, num_classes()). Randomness comes only from `random`, a stream that
  // belongs to this image in this epoch. Throws FileError if the image cannot be read, and
  // ArgumentError if the images differ in size. `index` must be in [0, size()).
  virtual std::int64_t read(std::int64_t index, Generator& random,
                            std::span<std::uint8_t> pixels) const = 0;
  // Like read(), for images of any size: `image` takes the shape of this one.
  virtual std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const;

  // The label that read() gives for image `index`. The default implementation reads the image.
  virtual std::int64_t label(std::int64_t index) const;

  // The name of image `index` in messages: `image 17`, preceded by its file's name if it has its
  // own.
  virtual std::string describe(std::int64_t index) const;
  // The format of image `index`'s file: `JPEG`, `PNG`; empty if it has no file of its own.
  virtual std::string format(std::int64_t /*index*/) const { return {}; }
  // The images that are left out because they cannot be read; see readable.h.
  virtual std::vector<UnreadableImage> left_out() const { return {}; }
};

// The labels of all images, in their order.
std::vector<std::int64_t> labels_of(const Dataset& dataset);

// The images and labels of a data set that fits in memory.
struct ImageTable {
  Shape image_shape{};  // [channels, height, width]
  std::int64_t num_classes = 0;
  Normalization normalization{};
  std::vector<std::uint8_t> pixels{};      // [size, height, width, channels]
  std::vector<std::uint8_t> labels{};      // [size]
  std::vector<std::string> class_names{};  // of all classes, or empty
};

// A data set whose images lie in memory, not transformed.
class MemoryDataset final : public Dataset {
 public:
  // Throws ArgumentError if the table is empty, its sizes do not match or a label is not a class.
  explicit MemoryDataset(ImageTable table);

  std::int64_t size() const override { return static_cast<std::int64_t>(table_.labels.size()); }
  Shape image_shape() const override { return table_.image_shape; }
  std::int64_t num_classes() const override { return table_.num_classes; }
  std::vector<std::string> class_names() const override { return table_.class_names; }
  Normalization normalization() const override { return table_.normalization; }
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override;
  std::int64_t label(std::int64_t index) const override {
    return table_.labels[static_cast<std::size_t>(index)];
  }

 private:
  ImageTable table_;
};

}  // namespace mezzo::data
