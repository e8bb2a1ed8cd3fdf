#include "mezzo/cli/left_out.h"

#include "mezzo/cli/print.h"
#include "mezzo/data/readable.h"
#include "mezzo/io/utf8.h"

namespace mezzo::cli {

void begin_left_out(JsonLines& json, const data::Dataset& set, const char* split) {
  for (const data::UnreadableImage& image : set.left_out()) {
    json.begin({{"event", "left_out"},
                {"split", split},
                {"image", io::escape_invalid_utf8(image.name)},
                {"why", io::escape_invalid_utf8(image.why)}});
  }
}

void print_left_out(const data::Dataset& set, const char* split) {
  const std::vector<data::UnreadableImage> images = set.left_out();
  if (images.empty()) return;
  write_out("{}: {}\n", split,
            on_one_line(data::summary_of(images, set.size() + std::ssize(images))));
}

}  // namespace mezzo::cli
