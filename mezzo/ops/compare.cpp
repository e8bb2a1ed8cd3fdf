#include "mezzo/ops/compare.h"

#include "mezzo/ops/broadcasting.h"
#include "mezzo/ops/compare_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

// Operands are widened only by promotion, where their dtypes differ.
constexpr PrecisionRule kNothingIsCast{
    .cast_mask = 0,
    .reason =
        "the result has no precision to lose, but different operands may be equal once they are "
        "rounded: 256 and 257 in bf16"};

constexpr Relation kRelations[] = {Relation::kEq, Relation::kNe, Relation::kLt,
                                   Relation::kLe, Relation::kGt, Relation::kGe};

std::vector<Sample> compare_samples() {
  std::vector<Sample> all;
  for (const Relation relation : kRelations) {
    const auto pair = [&](const Shape& a, const Shape& b) {
      all.push_back({{{a}, {b}}, CompareAttrs{relation}});
    };
    pair({2, 3, 4, 5}, {2, 3, 4, 5});
    pair({7, 33}, {33});
  }
  const auto less = [&](const Shape& a, const Shape& b) {
    all.push_back({{{a}, {b}}, CompareAttrs{Relation::kLt}});
  };
  less({2, 3, 4, 5}, {1, 3, 1, 1});
  less({3, 1}, {1, 5});
  less({2, 1, 4}, {2, 3, 1});
  less({}, {4});
  less({0, 3}, {3});
  less({}, {});
  return all;
}

std::vector<Sample> compare_number_samples() {
  std::vector<Sample> all;
  for (const Relation relation : kRelations) {
    all.push_back({{{{2, 3, 4, 5}}}, CompareNumberAttrs{relation, 0.25}});
    all.push_back({{{{67}}}, CompareNumberAttrs{relation, -1}});
  }
  all.push_back({{{{}}}, CompareNumberAttrs{}});
  all.push_back({{{{0, 4}}}, CompareNumberAttrs{}});
  return all;
}

}  // namespace

namespace ops {

extern const OpDef compare{
    .name = "compare",
    .doc = "whether a and b are eq, ne, lt, le, gt or ge, with broadcasting; bool",
    .precision = kNothingIsCast,
    .promote = 0b11,
    .infer =
        [](Infer& infer) {
          infer.check_same_dtype(0, 1);
          output_broadcast(infer, DType::kBool, {0, 1});
        },
    .samples = compare_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}, {{2, 4}}},
               CompareAttrs{},
               "shapes cannot be broadcast together: [2, 3] and [2, 4]"}};
    },
    .exact = true,
};

extern const OpDef compare_number{
    .name = "compare_number",
    .doc = "whether x is eq, ne, lt, le, gt or ge to a scalar; bool",
    .precision = kNothingIsCast,
    .infer = [](Infer& infer) { output_broadcast(infer, DType::kBool, {0}); },
    .samples = compare_number_samples,
    .exact = true,
};

}  // namespace ops

namespace {

Tensor compare(Relation relation, const Tensor& a, const Tensor& b) {
  return call_one(ops::compare, {&a, &b}, CompareAttrs{relation});
}
Tensor compare(Relation relation, const Tensor& x, double number) {
  return call_one(ops::compare_number, {&x}, CompareNumberAttrs{relation, number});
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) { return compare(Relation::kEq, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare(Relation::kNe, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare(Relation::kLt, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare(Relation::kLe, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare(Relation::kGt, a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare(Relation::kGe, a, b); }

Tensor eq(const Tensor& x, double number) { return compare(Relation::kEq, x, number); }
Tensor ne(const Tensor& x, double number) { return compare(Relation::kNe, x, number); }
Tensor lt(const Tensor& x, double number) { return compare(Relation::kLt, x, number); }
Tensor le(const Tensor& x, double number) { return compare(Relation::kLe, x, number); }
Tensor gt(const Tensor& x, double number) { return compare(Relation::kGt, x, number); }
Tensor ge(const Tensor& x, double number) { return compare(Relation::kGe, x, number); }

}  // namespace mezzo
