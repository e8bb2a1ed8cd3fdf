#include "mezzo/data/readable.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/data/class_counts.h"
#include "mezzo/data/names.h"
#include "mezzo/data/subset.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kReadableOp = "images";

// The readable images; also reports the unreadable ones.
class Readable final : public Subset {
 public:
  Readable(std::unique_ptr<Dataset> source, std::vector<std::int64_t> indices,
           std::vector<UnreadableImage> left_out)
      : Subset(std::move(source), std::move(indices)), left_out_(std::move(left_out)) {}

  std::vector<UnreadableImage> left_out() const override { return left_out_; }

 private:
  std::vector<UnreadableImage> left_out_;
};

std::vector<std::int64_t> all_but(const std::vector<Unreadable>& bad, std::int64_t size) {
  std::vector<std::int64_t> rest;
  auto next = bad.begin();
  for (std::int64_t i = 0; i < size; ++i) {
    if (next != bad.end() && next->index == i) {
      ++next;
    } else {
      rest.push_back(i);
    }
  }
  return rest;
}

// Reports the classes that have images but no readable one.
void check_classes(const Dataset& set, const std::vector<Unreadable>& bad, bool allow_empty) {
  const std::vector<std::int64_t> all = class_counts(set);
  std::vector<std::int64_t> left = all;
  for (const Unreadable& image : bad) --left[static_cast<std::size_t>(set.label(image.index))];
  const std::vector<std::string> names = set.class_names();
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_lost = all[i] > 0 && left[i] == 0;
    if (is_lost) empty.push_back(names.empty() ? std::to_string(i) : names[i]);
  }
  if (empty.empty()) return;
  const std::string what = concat("no image can be read of ", empty.size(), " of ", all.size(),
                                  " classes: ", first_names(empty));
  if (!allow_empty) {
    fail<FileError>(kReadableOp, what,
                    ". `mezzo data` names the files: replace them, or leave the class out");
  }
  logging::warn_once(concat("[images] ", what));
}

}  // namespace

std::vector<Unreadable> unreadable_images(const Dataset& set) {
  std::vector<Unreadable> found;
  std::mutex mutex;
  parallel_for(set.size(), 1, [&](std::int64_t begin, std::int64_t end) {
    Image image;
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        Generator random;
        set.read_image(i, random, image);
      } catch (const FileError& error) {
        const std::lock_guard lock(mutex);
        found.push_back({i, {set.describe(i), error.what()}});
      }
    }
  });
  std::ranges::sort(found, {}, &Unreadable::index);
  return found;
}

std::string summary_of(const std::vector<UnreadableImage>& images, std::int64_t of) {
  std::vector<std::string> names;
  for (const UnreadableImage& image : images) names.push_back(image.name);
  return concat(images.size(), " of ", of, " images cannot be read: ", first_names(names));
}

std::string without_operation(const std::string& message) {
  const std::size_t end = message.find("] ");
  return message.starts_with('[') && end != std::string::npos ? message.substr(end + 2) : message;
}

std::unique_ptr<Dataset> without_unreadable(std::unique_ptr<Dataset> source, bool allow_empty) {
  check_arg(source != nullptr, kReadableOp, "the data set is null. Open one first");
  const std::vector<Unreadable> bad = unreadable_images(*source);
  if (bad.empty()) return source;
  if (std::ssize(bad) == source->size()) {
    fail<FileError>(kReadableOp, "none of ", bad.size(), " images can be read. The first one is ",
                    without_operation(bad.front().image.why));
  }
  check_classes(*source, bad, allow_empty);
  std::vector<UnreadableImage> left_out = source->left_out();
  for (const Unreadable& image : bad) left_out.push_back(image.image);
  logging::warn_once(concat("[images] ", summary_of(left_out, source->size()),
                            left_out.size() == 1 ? ". It is skipped" : ". They are skipped"));
  std::vector<std::int64_t> rest = all_but(bad, source->size());
  return std::make_unique<Readable>(std::move(source), std::move(rest), std::move(left_out));
}

}  // namespace mezzo::data
