// Folders of pictures: one folder per class, with JPEG and PNG files in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

// The pictures in a folder of class folders, as torchvision's ImageFolder has them: classes are the
// folders in the order of their names, bytes compared; pictures are the files whose names end in
// .jpg, .jpeg or .png in any case, at any depth below, class by class and by path. All else is
// passed over. Pictures are decoded when read (see decode.h), in colour, and differ in size: see
// map().
class ImageFolder final : public Dataset {
 public:
  // `classes`: the names that labels stand for; those of the folders here if empty. Throws
  // FileError if there is no such folder, no class, a class without pictures or one that is not in
  // `classes`.
  explicit ImageFolder(const std::string& folder, std::vector<std::string> classes = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Shape image_shape() const override { return {3, 0, 0}; }
  std::int64_t num_classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  Normalization normalization() const override { return imagenet_normalization(); }
  // Throws ArgumentError: read_image() is for images of any size.
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override;
  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override;
  std::int64_t label(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].label;
  }
  std::string describe(std::int64_t index) const override;

  std::vector<std::string> class_names() const override { return classes_; }
  std::string path(std::int64_t index) const;

 private:
  struct File {
    std::string path;  // below folder_
    std::int64_t label;
  };
  void add_class(const std::string& name, std::int64_t label);

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

// The split of the pictures in `folder`: `train`, and `val` or else `test`, with a class folder for
// each class in them; labels are those of `train` where there is one. Without any of these folders
// it is itself the folder of classes, for both splits alike, and a warning says so when it is
// opened for training. Throws FileError as ImageFolder does, and if one of the two folders is
// missing.
std::unique_ptr<Dataset> open_images(const std::string& folder, Split split);

}  // namespace mezzo::data
