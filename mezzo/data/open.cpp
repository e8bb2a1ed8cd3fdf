#include "mezzo/data/open.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/data/cifar10.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/idx.h"
#include "mezzo/data/image_folder.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/data/readable.h"
#include "mezzo/data/shapes.h"

namespace mezzo::data {
namespace {

constexpr std::int64_t kMostSide = 4096;

struct BuiltIn {
  std::string_view name;
  std::unique_ptr<Dataset> (*open)(Split split, std::int64_t size);
};
constexpr BuiltIn kBuiltIn[] = {{"digits", open_digits}, {"shapes", open_shapes}};

using Transforms = std::vector<Transform>;

// Resizes all images to one size, which batches require.
Transforms stretching(const Dataset& set, const OpenOptions& options) {
  const std::int64_t size = options.image_size;
  const Shape shape = set.image_shape();
  if (size == 0 || (size == shape[1] && size == shape[2])) return {};
  return {Resize{.height = size, .width = size}};
}

Transforms for_cifar10(const Dataset& set, const OpenOptions& options) {
  const Shape shape = set.image_shape();
  Transforms transforms;
  if (options.augment) {
    transforms = {RandomCrop{.height = shape[1], .width = shape[2], .padding = 4},
                  RandomHorizontalFlip{}};
  }
  for (const Transform& transform : stretching(set, options)) transforms.push_back(transform);
  return transforms;
}

Transforms for_images(const Dataset& /*set*/, const OpenOptions& options) {
  constexpr std::int64_t kUsualSize = 224;
  constexpr std::int64_t kUsualShortSide = 256;
  const std::int64_t size = options.image_size > 0 ? options.image_size : kUsualSize;
  if (options.augment) {
    return {RandomResizedCrop{.height = size, .width = size}, RandomHorizontalFlip{}};
  }
  return {ResizeShortSide{.size = (size * kUsualShortSide + kUsualSize / 2) / kUsualSize},
          CenterCrop{.height = size, .width = size}};
}

struct InFolder {
  std::string_view name;
  std::unique_ptr<Dataset> (*open)(const std::string& folder, Split split,
                                   const OpenOptions& options);
  Transforms (*transforms)(const Dataset& set, const OpenOptions& options);
  std::array<std::string_view, 3> endings{};  // of its files; the rest stay empty
};

template <std::unique_ptr<Dataset> (*kOpen)(const std::string&, Split)>
std::unique_ptr<Dataset> open_files(const std::string& folder, Split split,
                                    const OpenOptions& /*options*/) {
  return kOpen(folder, split);
}

std::unique_ptr<Dataset> open_pictures(const std::string& folder, Split split,
                                       const OpenOptions& options) {
  auto set = open_images(folder, split, {.apply_orientation = options.apply_orientation});
  if (options.bad_images != BadImages::kSkip) return set;
  // A class that loses all its images is an error in training and a warning in tests.
  return without_unreadable(std::move(set), split == Split::kTest);
}

constexpr InFolder kInFolder[] = {
    {"mnist", open_files<open_mnist>, stretching, {"-ubyte", "-ubyte.gz"}},
    {"cifar10", open_files<open_cifar10>, for_cifar10, {".bin"}},
    {"images", open_pictures, for_images, {".jpg", ".jpeg", ".png"}}};

bool ends_as_one_of(const InFolder& set, std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return std::ranges::any_of(set.endings, [&](std::string_view ending) {
    return !ending.empty() && name.ends_with(ending);
  });
}

bool lies_in(const std::string& path, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  // The path is used without its trailing slash, which would count as a component of its own.
  const fs::path outer = fs::weakly_canonical(fs::absolute(fs::path(folder) / ".", error), error);
  const fs::path inner = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path rest = inner.lexically_relative(outer);
  return !error && !rest.empty() && *rest.begin() != "..";
}

std::unique_ptr<Dataset> transformed(std::unique_ptr<Dataset> set, Transforms transforms) {
  return transforms.empty() ? std::move(set) : map(std::move(set), std::move(transforms));
}

std::string known_specs() {
  std::string text;
  const auto add = [&text](std::string_view name, std::string_view rest) {
    if (!text.empty()) text += ", ";
    text += name;
    text += rest;
  };
  for (const BuiltIn& set : kBuiltIn) add(set.name, "");
  for (const InFolder& set : kInFolder) add(set.name, ":DIR");
  return text;
}

// A set as its files store it, and the transforms that bring its images to one size.
struct Opened {
  std::unique_ptr<Dataset> set;
  Transforms (*transforms)(const Dataset& set, const OpenOptions& options);
};

constexpr std::string_view kOpenOp = "data";

Opened open_spec(std::string_view spec, Split split, const OpenOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string folder(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
  for (const BuiltIn& set : kBuiltIn) {
    if (name != set.name) continue;
    check_arg(colon == std::string_view::npos, kOpenOp, name,
              " is built in and has no folder: ", spec, ". Write ", name);
    return {set.open(split, 0), stretching};
  }
  for (const InFolder& set : kInFolder) {
    if (name != set.name) continue;
    check_arg(!folder.empty(), kOpenOp, name, " needs the folder of its files: ", spec, ". Write ",
              name, ":DIR");
    return {set.open(folder, split, options), set.transforms};
  }
  fail(kOpenOp, "no such data set: `", spec, "`. Known data sets are ", known_specs());
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(std::string_view spec, Split split,
                                      const OpenOptions& options) {
  check_arg(options.image_size >= 0 && options.image_size <= kMostSide, kOpenOp,
            "the image size must be from 1 to ", kMostSide, ": ", options.image_size);
  OpenOptions applied = options;
  applied.augment = options.augment && split == Split::kTrain;
  auto [set, transforms_of] = open_spec(spec, split, applied);
  Transforms transforms = transforms_of(*set, applied);
  return transformed(std::move(set), std::move(transforms));
}

std::unique_ptr<Dataset> open_as_stored(std::string_view spec, Split split,
                                        const OpenOptions& options) {
  return open_spec(spec, split, options).set;
}

bool is_file_of(std::string_view spec, const std::string& path) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string folder(spec.substr(colon + 1));
  return std::ranges::any_of(kInFolder, [&](const InFolder& set) {
    return spec.substr(0, colon) == set.name && ends_as_one_of(set, path) && lies_in(path, folder);
  });
}

}  // namespace mezzo::data
