#include "mezzo/cli/data_sheet.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "mezzo/cli/strict_values.h"
#include "mezzo/core/error.h"
#include "mezzo/core/math.h"
#include "mezzo/data/pictures.h"
#include "mezzo/data/statistics.h"
#include "mezzo/data/stream.h"

namespace mezzo::cli {
namespace {

constexpr std::int64_t kPicturesInARow = 8;
constexpr std::int64_t kMostPictures = 1024;
constexpr std::int64_t kCell = 112;  // the largest side of an image on the sheet, in pixels

// An image as stored, and as it reaches the network.
struct Pair {
  data::Image stored{};
  data::Image seen{};
};

// Enlarges small images by whole factors, and shrinks large ones.
data::Image fitted(const data::Image& image) {
  const std::int64_t side = std::max(image.shape[1], image.shape[2]);
  if (side > kCell) return data::shrunk(image, kCell);
  const std::int64_t times = kCell / side;
  data::Image larger;
  larger.reshape({image.shape[0], image.shape[1] * times, image.shape[2] * times});
  auto to = larger.pixels.begin();
  for (std::int64_t y = 0; y < larger.shape[1]; ++y) {
    for (std::int64_t x = 0; x < larger.shape[2]; ++x) {
      to =
          std::copy_n(image.view().row(y / times) + x / times * image.shape[0], image.shape[0], to);
    }
  }
  return larger;
}

data::Image empty_cell(std::int64_t channels) {
  constexpr std::uint8_t kGround = 40;  // as between the pictures of a sheet
  data::Image cell;
  cell.reshape({channels, kCell, kCell});
  std::ranges::fill(cell.pixels, kGround);
  return cell;
}

// Places the image in the centre of a square cell.
data::Image centred(const data::Image& image) {
  const std::int64_t channels = image.shape[0];
  data::Image cell = empty_cell(channels);
  const std::int64_t top = (kCell - image.shape[1]) / 2;
  const std::int64_t left = (kCell - image.shape[2]) / 2;
  for (std::int64_t y = 0; y < image.shape[1]; ++y) {
    std::copy_n(image.view().row(y), image.shape[2] * channels,
                cell.pixels.begin() + ((top + y) * kCell + left) * channels);
  }
  return cell;
}

// The layout of a sheet: image numbers, -1 for an empty cell.
struct Plan {
  std::int64_t columns = 0;
  bool has_class_columns = false;
  std::vector<std::size_t> classes{};  // of the columns, alternating
  std::vector<std::int64_t> indices{};
};

using ImagesOfClasses = std::vector<std::vector<std::int64_t>>;

ImagesOfClasses images_of_classes(const data::Dataset& set) {
  ImagesOfClasses of_class(static_cast<std::size_t>(set.num_classes()));
  for (std::int64_t i = 0; i < set.size(); ++i) {
    of_class.at(static_cast<std::size_t>(set.label(i))).push_back(i);
  }
  return of_class;
}

// The number of pictures for each class, `pictures` in all. Classes get one more each in turn, as
// long as they have more.
std::vector<std::int64_t> share_out(const ImagesOfClasses& of_class, std::int64_t pictures) {
  std::vector<std::int64_t> counts(of_class.size());
  for (bool found = true; found && pictures > 0;) {
    found = false;
    for (std::size_t c = 0; c < counts.size() && pictures > 0; ++c) {
      if (counts[c] == std::ssize(of_class[c])) continue;
      ++counts[c];
      --pictures;
      found = true;
    }
  }
  return counts;
}

// Classes alternate, so that each has its own columns: images spread evenly over those of their
// class. With fewer pictures than classes, the first classes have one each.
Plan plan_by_class(const data::Dataset& set, std::int64_t pictures) {
  const ImagesOfClasses of_class = images_of_classes(set);
  const std::vector<std::int64_t> counts = share_out(of_class, pictures);
  Plan plan{.has_class_columns = true};
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) plan.classes.push_back(c);
  }
  const std::int64_t shown = std::ssize(plan.classes);
  const std::int64_t turns = std::ranges::max(counts);
  plan.columns = shown * std::min(turns, std::max<std::int64_t>(kPicturesInARow / shown, 1));
  const std::int64_t rows = ceil_div(turns * shown, plan.columns);
  plan.indices.assign(static_cast<std::size_t>(rows * plan.columns), -1);
  for (std::size_t i = 0; i < plan.classes.size(); ++i) {
    const std::vector<std::int64_t>& images = of_class[plan.classes[i]];
    std::size_t cell = i;
    for (const std::int64_t place :
         data::evenly_spread(std::ssize(images), counts[plan.classes[i]])) {
      plan.indices[cell] = images[static_cast<std::size_t>(place)];
      cell += plan.classes.size();
    }
  }
  return plan;
}

Plan plan_of(const data::Dataset& set, std::int64_t pictures) {
  constexpr std::int64_t kMostClassColumns = 12;
  if (set.num_classes() > 1 && set.num_classes() <= kMostClassColumns) {
    return plan_by_class(set, pictures);
  }
  Plan plan{.columns = kPicturesInARow, .indices = data::evenly_spread(set.size(), pictures)};
  plan.columns = std::min<std::int64_t>(kPicturesInARow, std::ssize(plan.indices));
  while (std::ssize(plan.indices) % plan.columns != 0) plan.indices.push_back(-1);
  return plan;
}

// Empty cells become pairs of empty images.
std::vector<Pair> read_pairs(const std::string& spec, data::Split split,
                             const SheetOptions& options, const data::Dataset& stored,
                             const Plan& plan) {
  const auto seen =
      data::open_dataset(spec, split, {.image_size = options.image_size, .augment = true});
  std::vector<Pair> pairs(plan.indices.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::int64_t index = plan.indices[i];
    if (index < 0) continue;
    Generator unused;
    Generator random = data::stream_of(options.seed, 0, static_cast<std::uint64_t>(index));
    Pair pair;
    try {
      stored.read_image(index, unused, pair.stored);
      seen->read_image(index, random, pair.seen);
    } catch (const FileError&) {
      continue;  // it is reported among the unreadable ones
    }
    pairs[i] = std::move(pair);
  }
  return pairs;
}

std::string column_names(const data::Dataset& set, const std::vector<std::size_t>& classes) {
  const std::vector<std::string> names = set.class_names();
  std::string text;
  for (const std::size_t number : classes) {
    text += (text.empty() ? "" : ", ") + (names.empty() ? std::to_string(number) : names[number]);
  }
  return text;
}

}  // namespace

void add_sheet_options(CLI::App& command, SheetOptions& options) {
  const auto mark = [&options](const auto&) { options.is_given = true; };
  command.add_option("--pictures", options.pictures, "Images in the picture of --out")
      ->capture_default_str()
      ->each(mark);
  add_size(command, "--image-size", options.image_size, "Height and width of images in training")
      ->each(mark);
  command.add_option("--seed", options.seed, "Seed of the run whose first epoch it shows")
      ->capture_default_str()
      ->each(mark);
}

void check_sheet_options(const SheetOptions& options) {
  check_arg(options.pictures >= 1 && options.pictures <= kMostPictures, "--pictures",
            "must be from 1 to ", kMostPictures, ": ", options.pictures);
}

Sheet make_sheet(const std::string& spec, data::Split split, const SheetOptions& options) {
  const auto stored = data::open_as_stored(spec, split);
  const Plan plan = plan_of(*stored, options.pictures);
  const std::vector<Pair> pairs = read_pairs(spec, split, options, *stored, plan);
  const bool differ = std::ranges::any_of(pairs, [](const Pair& pair) {
    return pair.stored.shape != pair.seen.shape || pair.stored.pixels != pair.seen.pixels;
  });
  std::vector<data::Image> cells;
  const auto add_row = [&](std::size_t first, data::Image Pair::*image) {
    for (std::size_t i = first; i < first + static_cast<std::size_t>(plan.columns); ++i) {
      const data::Image& picture = pairs[i].*image;
      cells.push_back(picture.pixels.empty() ? empty_cell(stored->image_shape()[0])
                                             : centred(fitted(picture)));
    }
  };
  for (std::size_t first = 0; first < pairs.size();
       first += static_cast<std::size_t>(plan.columns)) {
    add_row(first, &Pair::stored);
    if (differ) add_row(first, &Pair::seen);
  }
  std::string caption = differ ? "each row as stored, and below it as the network sees it"
                               : "images as stored, which is what the network sees";
  if (plan.has_class_columns)
    caption += "; classes by column: " + column_names(*stored, plan.classes);
  return {data::contact_sheet(cells, plan.columns), std::move(caption)};
}

}  // namespace mezzo::cli
