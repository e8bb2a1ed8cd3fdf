// Folders of pictures: one folder per class, with JPEG and PNG files in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

struct ImageFolderOptions {
  // The names that labels stand for; those of the folders that are there if empty.
  std::vector<std::string> classes{};
  // Classes may be without pictures, whether their folder is empty or is not there: a warning names
  // them, and the others keep their labels. Else an empty folder is an error.
  bool allow_empty = false;
  bool apply_orientation = true;  // turn pictures upright: see DecodeOptions
};

// The pictures in a folder of class folders, as torchvision's ImageFolder has them: classes are the
// folders in the order of their names, bytes compared; pictures are the files whose names end in
// .jpg, .jpeg or .png in any case, at any depth below, class by class and by path. All else is
// passed over, and so is what is hidden, because its name begins with a dot: folders such as
// .ipynb_checkpoints, which would be classes, and macOS's ._NAME.jpg, which are no pictures. A
// warning counts these. Pictures are decoded when read (see decode.h), in colour, and differ in
// size: see map().
class ImageFolder final : public Dataset {
 public:
  // Throws FileError if there is no such folder, no class, no picture, a class without pictures
  // that is not allowed, or pictures of a class that is not in `classes`.
  explicit ImageFolder(const std::string& folder, ImageFolderOptions options = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Shape image_shape() const override { return {3, 0, 0}; }
  std::int64_t num_classes() const override {
    return static_cast<std::int64_t>(options_.classes.size());
  }
  Normalization normalization() const override { return imagenet_normalization(); }
  // Throws ArgumentError: read_image() is for images of any size.
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override;
  std::int64_t read_image(std::int64_t index, Generator& random, Image& image) const override;
  std::int64_t label(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].label;
  }
  std::string describe(std::int64_t index) const override;
  std::string format(std::int64_t index) const override;

  std::vector<std::string> class_names() const override { return options_.classes; }
  std::string path(std::int64_t index) const;

 private:
  struct File {
    std::string path;  // below folder_
    std::int64_t label;
  };
  void add_class(const std::string& name, std::vector<std::string> pictures);
  void check_for_empty(const std::vector<std::string>& found) const;

  std::string folder_;
  ImageFolderOptions options_;
  std::vector<File> files_;
};

// The split of the pictures in `folder`: `train`, and `val` or else `test`, with a class folder for
// each class in them; classes are those of `train` where there is one. Without any of these folders
// it is itself the folder of classes, for both splits alike, and a warning says so when it is
// opened for training.
//
// What is trained on must have pictures of every class: a class folder of `train` without any is an
// error, and so are pictures in `val` of a class that `train` lacks. What is tested on need not: a
// class without pictures there, whether its folder is empty or is not there, draws a warning.
// Throws FileError as ImageFolder does, and if one of the two folders is missing. `classes` and
// `allow_empty` are set here, whatever `options` says.
std::unique_ptr<Dataset> open_images(const std::string& folder, Split split,
                                     const ImageFolderOptions& options = {});

}  // namespace mezzo::data
