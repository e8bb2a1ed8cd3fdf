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
#include "mezzo/data/token_file.h"

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

namespace fs = std::filesystem;

bool lies_in(const std::string& path, const std::string& folder) {
  std::error_code error;
  // The path is used without its trailing slash, which would count as a component of its own.
  const fs::path outer = fs::weakly_canonical(fs::absolute(fs::path(folder) / ".", error), error);
  const fs::path inner = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path rest = inner.lexically_relative(outer);
  return !error && !rest.empty() && *rest.begin() != "..";
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;  // also finds hard links
  return fs::weakly_canonical(fs::absolute(a, error), error) ==
         fs::weakly_canonical(fs::absolute(b, error), error);
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

// What opens a set of tokens, and the path that it needs.
struct Tokens {
  std::string_view name;
  std::unique_ptr<TokenSet> (*open)(const std::string& path, Split split, std::int64_t vocabulary);
  std::string_view path;  // `FILE`
};
constexpr Tokens kTokens[] = {{"text", open_text, "FILE"}, {"tokens", open_token_folder, "DIR"}};

// A spec in two: `images` and `DIR`.
struct SpecParts {
  std::string_view name;
  std::string path;
};

SpecParts parts_of(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  return {spec.substr(0, colon),
          std::string(colon == std::string_view::npos ? "" : spec.substr(colon + 1))};
}

Opened open_spec(std::string_view spec, Split split, const OpenOptions& options) {
  const auto [name, folder] = parts_of(spec);
  for (const BuiltIn& set : kBuiltIn) {
    if (name != set.name) continue;
    check_arg(spec == name, kOpenOp, name, " is built in and has no folder: ", spec, ". Write ",
              name);
    return {set.open(split, 0), stretching};
  }
  for (const InFolder& set : kInFolder) {
    if (name != set.name) continue;
    check_arg(!folder.empty(), kOpenOp, name, " needs the folder of its files: ", spec, ". Write ",
              name, ":DIR");
    return {set.open(folder, split, options), set.transforms};
  }
  check_arg(!names_tokens(spec), kOpenOp, spec, " has tokens, not images. Use ", kImageSetNames);
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

bool names_tokens(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  return colon != std::string_view::npos &&
         std::ranges::count(kTokens, spec.substr(0, colon), &Tokens::name) > 0;
}

std::unique_ptr<TokenSet> open_tokens(std::string_view spec, Split split, std::int64_t vocabulary) {
  const auto [name, path] = parts_of(spec);
  for (const Tokens& set : kTokens) {
    if (name != set.name) continue;
    check_arg(!path.empty(), kOpenOp, name, " needs a path: ", spec, ". Write ", name, ":",
              set.path);
    return set.open(path, split, vocabulary);
  }
  fail(kOpenOp, "no such set of tokens: `", spec, "`. Use ", kTokenSetNames);
}

bool is_file_of(std::string_view spec, const std::string& path) {
  const SpecParts set = parts_of(spec);
  if (set.path.empty()) return false;
  if (set.name == "text") return is_same_file(path, set.path);
  if (set.name == "tokens") return path.ends_with(".bin") && lies_in(path, set.path);
  return std::ranges::any_of(kInFolder, [&](const InFolder& known) {
    return set.name == known.name && ends_as_one_of(known, path) && lies_in(path, set.path);
  });
}

}  // namespace mezzo::data
