#include "mezzo/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/data/decode.h"

namespace mezzo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOp = "images";

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

[[noreturn]] void fail_to_list(const std::string& folder, const std::error_code& error) {
  fail<FileError>(kOp, folder, ": cannot be listed: ", error.message(), ". Check the path");
}

std::vector<std::string> folders_in(const std::string& folder) {
  if (!is_folder(folder)) {
    fail<FileError>(kOp, folder, ": there is no such folder. Check the path");
  }
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_folder(entry->path())) names.push_back(entry->path().filename().string());
  }
  if (error) fail_to_list(folder, error);
  std::ranges::sort(names);
  return names;
}

// Paths of the pictures anywhere below, folder by folder, each one's own pictures before those of
// the folders in it: the order of sorted(os.walk()), which is torchvision's.
std::vector<std::string> pictures_below(const fs::path& folder) {
  constexpr auto kOptions = fs::directory_options::follow_directory_symlink;
  constexpr int kDepth = 64;  // links may go round in circles
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, kOptions, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry.depth() >= kDepth) entry.disable_recursion_pending();
    std::error_code ignored;
    if (is_picture(entry->path()) && entry->is_regular_file(ignored)) {
      paths.push_back(entry->path().string());
    }
  }
  if (error) fail_to_list(folder.string(), error);
  std::ranges::sort(paths, {}, [](const std::string& path) {
    const fs::path picture(path);
    return std::pair(picture.parent_path().string(), picture.filename().string());
  });
  return paths;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == kMost) return concat(text, " and ", names.size() - kMost, " more");
    text += i == 0 ? "" : ", ";
    text += names[i];
  }
  return text;
}

// The folder of the test split, empty if there is none.
fs::path test_folder(const fs::path& folder) {
  for (const char* name : {"val", "test"}) {
    if (is_folder(folder / name)) return folder / name;
  }
  return {};
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, std::vector<std::string> classes)
    : folder_(folder), classes_(std::move(classes)) {
  const std::vector<std::string> found = folders_in(folder);
  if (found.empty()) {
    fail<FileError>(kOp, folder, ": there are no class folders in it. Pictures belong in a folder ",
                    "per class: ", (fs::path(folder) / "CLASS" / "PICTURE.jpg").string());
  }
  if (classes_.empty()) classes_ = found;
  for (const std::string& name : found) {
    const auto place = std::ranges::find(classes_, name);
    if (place == classes_.end()) {
      fail<FileError>(kOp, (fs::path(folder) / name).string(),
                      ": no such class is trained: there are ", joined(classes_),
                      ". Training and test pictures must have the same classes");
    }
    add_class(name, place - classes_.begin());
  }
  logging::write(logging::Topic::kData, folder, ": ", files_.size(), " pictures of ", found.size(),
                 " classes");
}

void ImageFolder::add_class(const std::string& name, std::int64_t label) {
  const fs::path folder = fs::path(folder_) / name;
  const std::vector<std::string> pictures = pictures_below(folder);
  if (pictures.empty()) {
    fail<FileError>(kOp, folder.string(), ": there are no pictures in this class: no file ends in ",
                    ".jpg, .jpeg or .png. Add some or remove the folder");
  }
  for (const std::string& path : pictures) {
    files_.push_back({fs::path(path).lexically_relative(folder_).string(), label});
  }
}

std::int64_t ImageFolder::read(std::int64_t index, Generator& /*random*/,
                               std::span<std::uint8_t> /*pixels*/) const {
  fail(kOp, describe(index), ": the pictures differ in size. Map the data set with a Resize first");
}

std::int64_t ImageFolder::read_image(std::int64_t index, Generator& /*random*/,
                                     Image& image) const {
  image = read_image_file(path(index), describe(index));
  return files_[static_cast<std::size_t>(index)].label;
}

std::string ImageFolder::path(std::int64_t index) const {
  return (fs::path(folder_) / files_[static_cast<std::size_t>(index)].path).string();
}

std::string ImageFolder::describe(std::int64_t index) const {
  return concat(path(index), " (image ", index, ")");
}

std::unique_ptr<Dataset> open_images(const std::string& folder, Split split) {
  const fs::path parent(folder);
  const bool has_train = is_folder(parent / "train");
  const fs::path test = test_folder(parent);
  if (!has_train && test.empty()) {
    auto set = std::make_unique<ImageFolder>(folder);
    if (split == Split::kTrain) {
      logging::warn_once(concat("[images] ", folder,
                                ": there are no folders train and val: the same pictures train and "
                                "test"));
    }
    return set;
  }
  const std::string train = (parent / "train").string();
  if (split == Split::kTrain) return std::make_unique<ImageFolder>(train);
  if (test.empty()) {
    fail<FileError>(kOp, folder, ": there is a folder train, but neither val nor test. Put the ",
                    "pictures to test with into ", (parent / "val").string());
  }
  return std::make_unique<ImageFolder>(test.string(),
                                       has_train ? folders_in(train) : std::vector<std::string>());
}

}  // namespace mezzo::data
