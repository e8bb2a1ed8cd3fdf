#include "mezzo/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/data/decode.h"
#include "mezzo/data/names.h"
#include "mezzo/data/picture_files.h"

namespace mezzo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderOp = "images";

void warn_of(const Hidden& hidden, const std::string& folder) {
  if (hidden.count == 0) return;
  logging::warn_once(concat("[images] ", folder, ": ", hidden.count,
                            " hidden files or folders are skipped, the first one is ",
                            hidden.first));
}

// The folder of the test split, empty if there is none.
std::string test_folder(const fs::path& folder) {
  for (const char* name : {"val", "test"}) {
    if (is_folder((folder / name).string())) return (folder / name).string();
  }
  return {};
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, ImageFolderOptions options)
    : folder_(folder), options_(std::move(options)) {
  Hidden hidden;
  const std::vector<std::string> found = folders_in(folder, hidden);
  if (found.empty()) {
    fail<FileError>(kFolderOp, folder,
                    ": there are no class folders in it. Pictures belong in a folder ",
                    "per class: ", (fs::path(folder) / "CLASS" / "PICTURE.jpg").string());
  }
  if (options_.classes.empty()) options_.classes = found;
  for (const std::string& name : found) {
    add_class(name, pictures_below((fs::path(folder) / name).string(), hidden));
  }
  warn_of(hidden, folder);
  check_for_empty(found);
  logging::write(logging::Topic::kData, folder, ": ", files_.size(), " pictures of ", found.size(),
                 " classes");
}

void ImageFolder::add_class(const std::string& name, std::vector<std::string> pictures) {
  const auto place = std::ranges::find(options_.classes, name);
  if (place == options_.classes.end() && !pictures.empty()) {
    fail<FileError>(kFolderOp, (fs::path(folder_) / name).string(),
                    ": no such class is in the training set, which has ",
                    first_names(options_.classes),
                    ". Training and test pictures must have the same classes");
  }
  for (const std::string& path : pictures) {
    files_.push_back(
        {fs::path(path).lexically_relative(folder_).string(), place - options_.classes.begin()});
  }
}

// `found`: the names of the existing folders.
void ImageFolder::check_for_empty(const std::vector<std::string>& found) const {
  if (files_.empty()) {
    fail<FileError>(kFolderOp, folder_,
                    ": there are no pictures in its folders: no file ends in .jpg, ",
                    ".jpeg or .png. Add some");
  }
  std::vector<bool> has_pictures(options_.classes.size());
  for (const File& file : files_) has_pictures[static_cast<std::size_t>(file.label)] = true;
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < has_pictures.size(); ++i) {
    if (!has_pictures[i]) empty.push_back(options_.classes[i]);
  }
  if (empty.empty()) return;
  if (options_.allow_empty) {
    logging::warn_once(concat("[images] ", folder_, ": there are no pictures of ", empty.size(),
                              " of ", options_.classes.size(), " classes: ", first_names(empty)));
    return;
  }
  const bool has_folder = std::ranges::binary_search(found, empty.front());
  fail<FileError>(kFolderOp, (fs::path(folder_) / empty.front()).string(),
                  ": there are no pictures in this class: ",
                  has_folder ? "no file ends in .jpg, .jpeg or .png. Add some or remove the folder"
                             : "there is no such folder. Add it, or leave the class out");
}

std::int64_t ImageFolder::read(std::int64_t index, Generator& /*random*/,
                               std::span<std::uint8_t> /*pixels*/) const {
  fail(kFolderOp, describe(index),
       ": the pictures differ in size. Apply a Resize with map() first");
}

std::int64_t ImageFolder::read_image(std::int64_t index, Generator& /*random*/,
                                     Image& image) const {
  image = read_image_file(path(index), describe(index),
                          {.apply_orientation = options_.apply_orientation});
  return label(index);
}

std::string ImageFolder::path(std::int64_t index) const {
  return (fs::path(folder_) / files_[static_cast<std::size_t>(index)].path).string();
}

std::string ImageFolder::describe(std::int64_t index) const {
  return concat(path(index), " (image ", index, ")");
}

std::string ImageFolder::format(std::int64_t index) const { return format_of_file(path(index)); }

std::unique_ptr<Dataset> open_images(const std::string& folder, Split split,
                                     const ImageFolderOptions& options) {
  const std::string train = (fs::path(folder) / "train").string();
  const bool has_train = is_folder(train);
  const std::string test = test_folder(folder);
  ImageFolderOptions own = options;
  own.classes.clear();
  own.allow_empty = false;
  if (!has_train && test.empty()) {
    auto set = std::make_unique<ImageFolder>(folder, own);
    if (split == Split::kTrain) {
      logging::warn_once(concat("[images] ", folder,
                                ": there are no folders train and val: the same pictures are used "
                                "for training and testing"));
    }
    return set;
  }
  if (split == Split::kTrain) return std::make_unique<ImageFolder>(train, own);
  if (test.empty()) {
    fail<FileError>(kFolderOp, folder,
                    ": there is a folder train, but neither val nor test. Put the ",
                    "pictures to test with into ", (fs::path(folder) / "val").string());
  }
  Hidden said_of_training;
  if (has_train) {
    own.classes = folders_in(train, said_of_training);
    own.allow_empty = true;
  }
  return std::make_unique<ImageFolder>(test, own);
}

}  // namespace mezzo::data
