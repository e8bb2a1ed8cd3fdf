#include "mezzo/data/readable.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/data/names.h"
#include "mezzo/data/subset.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kReadableOp = "images";

// The images that are left, which also says which are not.
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

std::unique_ptr<Dataset> without_unreadable(std::unique_ptr<Dataset> source) {
  check_arg(source != nullptr, kReadableOp, "the data set is null. Open one first");
  const std::vector<Unreadable> bad = unreadable_images(*source);
  if (bad.empty()) return source;
  if (std::ssize(bad) == source->size()) {
    fail<FileError>(kReadableOp, "none of ", bad.size(),
                    " images can be read, the first one because of ", bad.front().image.why);
  }
  std::vector<UnreadableImage> left_out = source->left_out();
  for (const Unreadable& image : bad) left_out.push_back(image.image);
  logging::warn_once(
      concat("[images] ", summary_of(left_out, source->size()), ". They are skipped"));
  std::vector<std::int64_t> rest = all_but(bad, source->size());
  return std::make_unique<Readable>(std::move(source), std::move(rest), std::move(left_out));
}

}  // namespace mezzo::data
