#include "mezzo/data/open.h"

#include <string>

#include "mezzo/core/error.h"
#include "mezzo/data/cifar10.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/idx.h"
#include "mezzo/data/shapes.h"

namespace mezzo::data {
namespace {

struct BuiltIn {
  std::string_view name;
  std::unique_ptr<Dataset> (*open)(Split split, std::int64_t size);
};
constexpr BuiltIn kBuiltIn[] = {{"digits", open_digits}, {"shapes", open_shapes}};

struct InFolder {
  std::string_view name;
  std::unique_ptr<Dataset> (*open)(const std::string& folder, Split split);
};
constexpr InFolder kInFolder[] = {{"mnist", open_mnist}, {"cifar10", open_cifar10}};

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

}  // namespace

std::unique_ptr<Dataset> open_dataset(std::string_view spec, Split split) {
  constexpr std::string_view kOp = "data";
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string folder(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
  for (const BuiltIn& set : kBuiltIn) {
    if (name != set.name) continue;
    check_arg(colon == std::string_view::npos, kOp, name, " is built in and has no folder: ", spec,
              ". Write ", name);
    return set.open(split, 0);
  }
  for (const InFolder& set : kInFolder) {
    if (name != set.name) continue;
    check_arg(!folder.empty(), kOp, name, " needs the folder of its files: ", spec, ". Write ",
              name, ":DIR");
    return set.open(folder, split);
  }
  fail(kOp, "no such data set: '", spec, "'. Known are ", known_specs());
}

}  // namespace mezzo::data
