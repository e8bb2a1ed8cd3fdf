#include "mezzo/data/subset.h"

#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

const Dataset& checked(const std::unique_ptr<Dataset>& source) {
  check_arg(source != nullptr, "Subset", "the data set is null. Open one first");
  return *source;
}

}  // namespace

Subset::Subset(const Dataset& source, std::vector<std::int64_t> indices)
    : DerivedDataset(source, nullptr), indices_(std::move(indices)) {
  check();
}

// Braces evaluate the first argument before the second one moves the source away.
Subset::Subset(std::unique_ptr<Dataset> source, std::vector<std::int64_t> indices)
    : DerivedDataset{checked(source), std::move(source)}, indices_(std::move(indices)) {
  check();
}

void Subset::check() const {
  check_arg(!indices_.empty(), "Subset", "there are no indices. Give at least one");
  for (const std::int64_t index : indices_) {
    check_arg(index >= 0 && index < source().size(), "Subset", "there is no image ", index,
              " in a set of ", source().size(), ". Indices count from 0");
  }
}

}  // namespace mezzo::data
