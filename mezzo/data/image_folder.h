// Image folders: one folder per class, with JPEG and PNG files in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mezzo/data/dataset.h"

namespace mezzo::data {

struct ImageFolderOptions {
  // The class names in the order of the labels; if empty, the names of the folders.
  std::vector<std::string> classes{};
  // Allow classes without pictures, whether their folder is empty or missing: a warning names them,
  // and the other classes keep their labels. Without this, an empty folder is an error.
  bool allow_empty = false;
  bool apply_orientation = true;  // turn pictures upright: see DecodeOptions
};

// The pictures in a folder of class folders, as in torchvision's ImageFolder. Classes are the
// folders, sorted by name (bytes compared). Pictures are the files at any depth in them whose names
// end in .jpg, .jpeg or .png in any case, sorted by class and path. Everything else is skipped. So
// are hidden files and folders, whose names begin with a dot: .ipynb_checkpoints would otherwise be
// a class, and macOS's ._NAME.jpg is not a picture. A warning counts these. Pictures are decoded in
// colour when they are read (see decode.h). They differ in size; see map().
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
  // Throws ArgumentError, since images may have any size: call read_image().
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
    std::string path;  // relative to folder_
    std::int64_t label;
  };
  void add_class(const std::string& name, std::vector<std::string> pictures);
  void check_for_empty(const std::vector<std::string>& found) const;

  std::string folder_;
  ImageFolderOptions options_;
  std::vector<File> files_;
};

// Opens the split of the pictures in `folder`: `train`, and `val` or else `test`, each with a class
// folder per class. Classes are those of `train` if it exists. Without any of these folders,
// `folder` itself holds the class folders and serves both splits; a warning says so when it is
// opened for training.
//
// Training needs pictures of every class: an empty class folder of `train` is an error, and so are
// pictures in `val` of a class that `train` lacks. A class without test pictures, whether its
// folder is empty or missing, only causes a warning. Throws FileError as ImageFolder does, and if
// one of the two folders is missing. `classes` and `allow_empty` in `options` are overridden.
std::unique_ptr<Dataset> open_images(const std::string& folder, Split split,
                                     const ImageFolderOptions& options = {});

}  // namespace mezzo::data
