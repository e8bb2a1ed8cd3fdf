// Tests what is sent over connections that may split it anywhere, or send anything.
#include "mezzo/distributed/frame.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/unit/message_of.h"

namespace mezzo::distributed {
namespace {

using testing::HasSubstr;

TEST(Frames, ArriveWholeFromPartsOfAnySize) {
  const std::string long_text(70000, 'x');
  const std::string bytes = encoded(FrameKind::kSet, long_text) + encoded(FrameKind::kBeat, "") +
                            encoded(FrameKind::kGet, "key");
  for (const std::size_t part : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += part) {
      reader.add(std::string_view(bytes).substr(at, part));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 3U) << part;
    EXPECT_EQ(frames[0].payload, long_text);
    EXPECT_EQ(frames[1].kind, FrameKind::kBeat);
    EXPECT_EQ(frames[2].payload, "key");
  }
}

TEST(Frames, AreRefusedIfTheyAreNone) {
  FrameReader of_http;
  of_http.add("HTTP/1.1 200 OK");
  EXPECT_THAT(message_of([&] { of_http.next(); }), HasSubstr("is no message of mezzo's"));
  FrameReader too_long;
  too_long.add(std::string("\xff\xff\xff\xff\x05", 5));
  EXPECT_THAT(message_of([&] { too_long.next(); }), HasSubstr("is too long"));
  EXPECT_THAT(message_of<ArgumentError>(
                  [] { encoded(FrameKind::kSet, std::string(kLongestPayload + 1, 'x')); }),
              HasSubstr("a message has 1048577 bytes, more than the 1048576"));
}

TEST(Payloads, AreReadAsTheyWereWritten) {
  const std::string bytes =
      PayloadWriter().number(4000000000U).text("a host").text("").number(0).bytes();
  PayloadReader reader(bytes);
  EXPECT_EQ(reader.number(), 4000000000U);
  EXPECT_EQ(reader.text(), "a host");
  EXPECT_EQ(reader.text(), "");
  EXPECT_EQ(reader.number(), 0U);
  EXPECT_TRUE(reader.is_at_end());
  EXPECT_THAT(message_of([&] { reader.number(); }), HasSubstr("is too short"));
  PayloadReader cut(std::string_view(bytes).substr(0, 9));
  cut.number();
  EXPECT_THAT(message_of([&] { cut.text(); }), HasSubstr("is too short"));
}

}  // namespace
}  // namespace mezzo::distributed
