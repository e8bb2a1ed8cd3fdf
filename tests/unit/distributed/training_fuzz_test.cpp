// Random trainings: losses that ignore labels and weigh them, divided in all ways. A failure names
// its seed; MEZZO_FUZZ_SEED=N runs only that case.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "tests/unit/distributed/counted_training.h"

namespace mezzo::test {
namespace {

constexpr std::uint64_t kCases = 1000;

class CaseMaker {
 public:
  explicit CaseMaker(std::uint64_t seed) : rng_(seed) { case_.seed = seed; }

  CountedTraining make() {
    case_.loss.is_of_classes = among(4) > 0;
    case_.features = 1 + among(5);
    case_.classes = 2 + among(4);
    if (among(3) == 0) {
      case_.height = 1 + among(3);
      case_.width = 1 + among(3);
    }
    if (case_.loss.is_of_classes) {
      choose_cross_entropy();
    } else {
      choose_squares();
    }
    choose_parts();
    choose_precision();
    return case_;
  }

 private:
  std::int64_t among(std::int64_t n) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n));
  }
  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[among(static_cast<std::int64_t>(values.size()))];
  }

  void choose_cross_entropy() {
    LossRule& rule = case_.loss;
    case_.form = one_of({LossForm::kObject, LossForm::kObject, LossForm::kObject,
                         LossForm::kCounted, LossForm::kSum, LossForm::kPlain});
    if (case_.form != LossForm::kPlain) {  // plain losses must be means over all
      // The number of no class, of the first class, or beyond the last.
      if (among(4) > 0) rule.ignore_index = one_of<std::int64_t>({-100, -100, 0, case_.classes});
      if (among(2) == 0) choose_weights();
    }
    if (among(3) == 0) rule.smoothing = 0.05 * static_cast<double>(1 + among(6));
    if (case_.form == LossForm::kSum || (case_.form == LossForm::kObject && among(4) == 0)) {
      rule.reduction = Reduction::kSum;
    }
    choose_ignored();
  }

  void choose_weights() {
    for (std::int64_t j = 0; j < case_.classes; ++j) {
      case_.loss.class_weights.push_back(one_of({0.0, 0.125, 0.5, 1.0, 1.5, 5.0}));
    }
  }

  void choose_squares() {
    case_.form = one_of({LossForm::kObject, LossForm::kCounted, LossForm::kSum, LossForm::kPlain});
    case_.loss.leaves_out_unknown =
        case_.form == LossForm::kCounted || case_.form == LossForm::kSum;
    if (case_.form == LossForm::kSum || (case_.form == LossForm::kObject && among(3) == 0)) {
      case_.loss.reduction = Reduction::kSum;
    }
    choose_ignored();
  }

  void choose_ignored() {
    case_.ignored = one_of({0.0, 0.3, 0.7, 0.7, 0.95, 1.0});
    case_.ignores_examples = among(2) == 0;
  }

  void choose_parts() {
    case_.graph = among(2) == 0;
    case_.processes = static_cast<int>(1 + among(3));
    case_.micro_batches = 1 + among(7);
    case_.batch_size = case_.micro_batches + among(5);
    case_.eval_batch_size = 1 + among(7);
  }

  void choose_precision() {
    case_.dtype = one_of({DType::kF32, DType::kF32, DType::kBf16, DType::kF16});
    if (case_.dtype == DType::kF16) case_.loss_scale = one_of({16.0, 64.0});
  }

  std::mt19937_64 rng_;
  CountedTraining case_;
};

TEST(TrainingFuzz, HasTheGradientsOfTheWholeBatch) {
  if (const char* seed = std::getenv("MEZZO_FUZZ_SEED"); seed != nullptr) {
    expect_whole_batches(CaseMaker(std::strtoull(seed, nullptr, 10)).make());
    return;
  }
  for (std::uint64_t seed = 1; seed <= kCases && !HasFailure(); ++seed) {
    expect_whole_batches(CaseMaker(seed).make());
  }
}

}  // namespace
}  // namespace mezzo::test
