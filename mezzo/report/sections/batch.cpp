#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string picture(const Picture& image) {
  const std::string label = escape(image.label);
  return concat("<figure><img alt=\"", label, "\" width=\"", image.width, "\" height=\"",
                image.height, "\" src=\"data:image/png;base64,", base64(image.png),
                "\"/><figcaption>", label, "</figcaption></figure>\n");
}

}  // namespace

Section batch_section(const RunData& run) {
  Section section{.id = "first-batch", .title = "First batch"};
  if (run.first_batch.empty()) return section;
  const auto shown = static_cast<std::int64_t>(run.first_batch.size());
  section.intro = concat(
      shown < run.batch_size ? concat("The first ", shown, " of ") : "All ",
      count_of(run.batch_size, "image"),
      ", as the network sees them: after augmentation, if any, and with the normalization undone.");
  std::string html = "<div class=\"pictures\">\n";
  for (const Picture& image : run.first_batch) html += picture(image);
  section.add(html + "</div>\n");
  return section;
}

}  // namespace mezzo::report
