#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/ops/dispatcher/attrs.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/losses_attrs.h"
#include "mezzo/ops/pointwise_attrs.h"
#include "mezzo/ops/slice_attrs.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

struct EveryKindAttrs {
  std::int64_t whole = -3;
  bool flag = true;
  double real = 0.1;
  float narrow = 0.1F;
  Shape shape{2, 3};
  std::array<double, 2> pair{0.5, -1e300};
  DType dtype = DType::kBf16;
  static constexpr auto kFields =
      std::tuple(Field{"whole", &EveryKindAttrs::whole}, Field{"flag", &EveryKindAttrs::flag},
                 Field{"real", &EveryKindAttrs::real}, Field{"narrow", &EveryKindAttrs::narrow},
                 Field{"shape", &EveryKindAttrs::shape}, Field{"pair", &EveryKindAttrs::pair},
                 Field{"dtype", &EveryKindAttrs::dtype});
  bool operator==(const EveryKindAttrs&) const = default;
};

struct TwoPlacesAttrs {
  std::int64_t count = 0;
  RandomPosition first{};
  RandomPosition second{};
  static constexpr auto kFields =
      std::tuple(Field{"count", &TwoPlacesAttrs::count}, Field{"first", &TwoPlacesAttrs::first},
                 Field{"second", &TwoPlacesAttrs::second});
  bool operator==(const TwoPlacesAttrs&) const = default;
};

struct LaterAttrs {
  std::int64_t old = 1;
  bool later = true;
  static constexpr auto kFields = std::tuple(
      Field{"later", &LaterAttrs::later, InText::kUnlessDefault}, Field{"old", &LaterAttrs::old});
  bool operator==(const LaterAttrs&) const = default;
};

TEST(AttrsText, OfEveryOperationIsReadBack) {
  std::size_t with_fields = 0;
  for (const RegisteredOp& entry : registered_ops()) {
    const std::vector<Sample> samples = entry.op->samples();
    ASSERT_FALSE(samples.empty()) << entry.op->name;
    for (const Sample& sample : samples) {
      const std::string text = sample.attrs.to_text();
      const Attrs read = parse_attrs(samples[0].attrs, text);
      EXPECT_EQ(read, sample.attrs) << entry.op->name << ": " << text;
      EXPECT_EQ(read.to_text(), text) << entry.op->name;
      with_fields += static_cast<std::size_t>(!text.empty());
    }
  }
  EXPECT_GT(with_fields, registered_ops().size() / 2);
}

TEST(AttrsText, KeepsEveryBitOfEveryKind) {
  EveryKindAttrs attrs;
  attrs.whole = std::numeric_limits<std::int64_t>::min();
  attrs.flag = false;
  attrs.real = 1.0 / 3;
  attrs.narrow = std::numeric_limits<float>::denorm_min();
  attrs.shape = Shape();
  attrs.pair = {-0.0, std::numeric_limits<double>::infinity()};
  attrs.dtype = DType::kBool;
  const Attrs read = parse_attrs(EveryKindAttrs{}, Attrs(attrs).to_text());
  EXPECT_EQ(read.as<EveryKindAttrs>(), attrs);
  EXPECT_TRUE(std::signbit(read.as<EveryKindAttrs>().pair[0]));
}

TEST(AttrsText, LeavesOutWhatCameLaterAndHasItsDefault) {
  const Attrs plain = LaterAttrs{7, true};
  const Attrs changed = LaterAttrs{7, false};
  EXPECT_EQ(plain.to_text(), "old=7");
  EXPECT_EQ(changed.to_text(), "later=false old=7");
  for (const Attrs& like : {plain, changed}) {
    EXPECT_EQ(parse_attrs(like, "old=7"), plain) << "whatever was there before";
    EXPECT_EQ(parse_attrs(like, changed.to_text()), changed);
    EXPECT_EQ(parse_attrs(like, "old=7 later=true"), plain);
    EXPECT_THROW(parse_attrs(like, "later=true"), ArgumentError) << "the other is needed";
  }
}

TEST(AttrsText, NamesEveryEnumerator) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
    const Attrs attrs = MseAttrs{reduction};
    EXPECT_EQ(parse_attrs(MseAttrs{}, attrs.to_text()), attrs);
  }
  EXPECT_EQ(parse_attrs(MseAttrs{}, "reduction=none").as<MseAttrs>().reduction, Reduction::kNone);
  EXPECT_EQ(parse_attrs(GeluAttrs{}, "form=tanh").as<GeluAttrs>().form, GeluForm::kTanh);
}

TEST(AttrsText, PutsAggregatesWithinOthersInParentheses) {
  const Attrs attrs = SliceGradAttrs{{5, 7}, {1, 2, 3, 1}};
  EXPECT_EQ(attrs.to_text(), "shape=[5, 7] slice=(axis=1 start=2 count=3 step=1)");
  EXPECT_EQ(parse_attrs(SliceGradAttrs{}, attrs.to_text()), attrs);
}

TEST(AttrsText, FieldsMayComeInAnyOrder) {
  const Attrs read = parse_attrs(SliceAttrs{}, "step=4 axis=1 count=3 start=2");
  EXPECT_EQ(read.as<SliceAttrs>(), (SliceAttrs{1, 2, 3, 4}));
}

std::string fault_of(const Attrs& like, std::string_view text) {
  return message_of<ArgumentError>([&] { parse_attrs(like, text, "slice"); });
}

TEST(AttrsText, SaysWhichFieldIsWrong) {
  const Attrs like = SliceAttrs{};
  EXPECT_EQ(fault_of(like, "axis=1 start=2 count=3 step=1 stop=4"),
            "[slice] there is no attribute in \"stop=4\". Give axis, start, count, step, each as "
            "name=value");
  EXPECT_EQ(fault_of(like, "axis=1 start=2 count=3"),
            "[slice] the attribute step is missing: \"axis=1 start=2 count=3\". Give axis, start, "
            "count, step");
  EXPECT_EQ(fault_of(like, "axis=1 axis=1"),
            "[slice] the attribute axis is given twice: \"axis=1 axis=1\". Leave one out");
  EXPECT_EQ(fault_of(like, "axis=1.5"),
            "[slice] the attribute axis has no such value: \"1.5\". Write it as Attrs::to_text() "
            "does");
  EXPECT_EQ(fault_of(NoAttrs{}, "axis=1"),
            "[slice] there is no attribute in \"axis=1\". Give none, each as name=value");
}

TEST(AttrsText, RefusesValuesOfEveryKindThatAreNone) {
  const std::string good = Attrs(EveryKindAttrs{}).to_text();
  EXPECT_EQ(good,
            "whole=-3 flag=true real=0.1 narrow=0.1 shape=[2, 3] pair=[0.5, -1e+300] dtype=bf16");
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {with("-3", ""), with("-3", "99999999999999999999"), with("true", "1"),
        with("0.1 n", "0,1 n"), with("[2, 3]", "[2, 3"), with("[2, 3]", "[1, 1, 1, 1, 1, 1, 1]"),
        with("[2, 3]", "[2 3]"), with("[0.5, ", "["), with("bf16", "half")}) {
    EXPECT_THROW(parse_attrs(EveryKindAttrs{}, text), ArgumentError) << text;
  }
  EXPECT_NO_THROW(parse_attrs(EveryKindAttrs{}, with("[2, 3]", "[]")));
}

TEST(AttrsText, FindsTheFirstPlaceInARandomStream) {
  Attrs attrs = TwoPlacesAttrs{7, {1, 2}, {3, 4}};
  ASSERT_NE(attrs.random_position(), nullptr);
  attrs.random_position()->offset = 40;
  EXPECT_EQ(attrs.as<TwoPlacesAttrs>(), (TwoPlacesAttrs{7, {1, 40}, {3, 4}}));
  EXPECT_EQ(attrs.to_text(), "count=7 first=1@40 second=3@4");
  const Attrs read = parse_attrs(TwoPlacesAttrs{}, attrs.to_text());
  EXPECT_EQ(read, attrs);
  EXPECT_EQ(*read.random_position(), (RandomPosition{1, 40}));
  EXPECT_EQ(Attrs(SliceAttrs{}).random_position(), nullptr);
}

}  // namespace
}  // namespace mezzo
