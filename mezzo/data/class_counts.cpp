#include "mezzo/data/class_counts.h"

#include <string>

#include "mezzo/core/error.h"

namespace mezzo::data {

std::vector<std::int64_t> class_counts(const Dataset& dataset) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.num_classes()));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int64_t label = dataset.label(i);
    check_arg(label >= 0 && label < dataset.num_classes(), "dataset", dataset.describe(i),
              ": the label ", label, " is not below ", dataset.num_classes(),
              ". Classes count from 0");
    ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

std::vector<double> balanced_class_weights(const Dataset& dataset) {
  const std::vector<std::int64_t> counts = class_counts(dataset);
  const std::vector<std::string> names = dataset.class_names();
  std::vector<double> weights;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    check_arg(counts[i] > 0, "class weights", "class ", i,
              names.empty() ? std::string() : concat(" (", names[i], ")"),
              " has no images, and so no balanced weight. Give the weights as numbers");
    weights.push_back(static_cast<double>(dataset.size()) /
                      (static_cast<double>(counts.size()) * static_cast<double>(counts[i])));
  }
  return weights;
}

}  // namespace mezzo::data
