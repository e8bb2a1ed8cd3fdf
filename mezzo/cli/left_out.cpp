#include "mezzo/cli/left_out.h"

#include "mezzo/cli/print.h"
#include "mezzo/data/readable.h"
#include "mezzo/io/utf8.h"

namespace mezzo::cli {
namespace {

void begin_split(JsonLines& json, const data::Dataset* set, const char* split) {
  if (set == nullptr) return;
  for (const data::UnreadableImage& image : set->left_out()) {
    json.begin({{"event", "left_out"},
                {"split", split},
                {"image", io::escape_invalid_utf8(image.name)},
                {"why", io::escape_invalid_utf8(image.why)}});
  }
}

void print_split(const data::Dataset* set, const char* split) {
  if (set == nullptr) return;
  const std::vector<data::UnreadableImage> images = set->left_out();
  if (images.empty()) return;
  write_out("{}: {}\n", split,
            on_one_line(data::summary_of(images, set->size() + std::ssize(images))));
}

}  // namespace

void begin_left_out(JsonLines& json, const train::DataPair& data) {
  begin_split(json, data.train.get(), "train");
  begin_split(json, data.test.get(), "test");
}

void print_left_out(const train::DataPair& data) {
  print_split(data.train.get(), "train");
  print_split(data.test.get(), "test");
}

}  // namespace mezzo::cli
