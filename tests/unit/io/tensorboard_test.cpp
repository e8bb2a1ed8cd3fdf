#include "mezzo/io/tensorboard.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/io/file_calls.h"
#include "mezzo/io/png.h"
#include "mezzo/io/protobuf.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/io/child.h"

namespace mezzo::io {
namespace {

using data::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// TensorBoard's own bytes for these events.
constexpr std::string_view kVersionRecord =
    "1800000000000000a37f4b220900000000004a93401a0d627261696e2e4576656e743a3265b8d3fb";
constexpr std::string_view kScalarRecord =
    "1a00000000000000129bd82d0900000000004a934010072a0d0a0b0a046c6f7373150000803eadb7cdb0";

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    for (const int shift : {4, 0}) {
      text += "0123456789abcdef"[(static_cast<unsigned char>(c) >> shift) & 15];
    }
  }
  return text;
}

std::string contents(const std::string& path) {
  const data::Bytes bytes = TempFolder::read(path);
  return {bytes.begin(), bytes.end()};
}

EventWriterOptions at_1234() {
  return {.clock = [] { return 1234.5; }};
}

// The contents of the file after the version record, without the lengths and checksums of its only
// event.
template <class Add>
std::string event_of(const Add& add) {
  const TempFolder folder;
  EventWriter writer(folder.path(), at_1234());
  const std::size_t before = contents(writer.path()).size();
  add(writer);
  const std::string record = contents(writer.path()).substr(before);
  return hex(record.substr(12, record.size() - 16));
}

TEST(ProtoMessage, GoldenFields) {
  EXPECT_EQ(hex(ProtoMessage().integer(1, 0).bytes()), "0800");
  EXPECT_EQ(hex(ProtoMessage().integer(1, 150).bytes()), "089601");
  EXPECT_EQ(hex(ProtoMessage().integer(16, -1).bytes()), "8001ffffffffffffffffff01");
  EXPECT_EQ(hex(ProtoMessage().text(2, "testing").bytes()), "120774657374696e67");
  EXPECT_EQ(hex(ProtoMessage().message(3, ProtoMessage().integer(1, 150)).bytes()), "1a03089601");
  EXPECT_EQ(hex(ProtoMessage().number(2, 0.25F).bytes()), "150000803e");
  EXPECT_EQ(hex(ProtoMessage().number(1, 1.0).bytes()), "09000000000000f03f");
  const std::vector<double> two = {1, -2};
  EXPECT_EQ(hex(ProtoMessage().numbers(6, two).bytes()), "3210000000000000f03f00000000000000c0");
  EXPECT_EQ(ProtoMessage().text(1, std::string(300, 'x')).bytes().substr(0, 3), "\x0a\xac\x02");
}

TEST(EventWriter, GoldenFile) {
  const TempFolder folder;
  EventWriter writer(folder.path(), at_1234());
  EXPECT_EQ(hex(contents(writer.path())), kVersionRecord);
  writer.add_scalar("loss", 0.25, 7);
  EXPECT_EQ(hex(contents(writer.path())), std::string(kVersionRecord) + std::string(kScalarRecord));
}

TEST(EventWriter, GoldenEvents) {
  const std::string time = "0900000000004a9340";
  // The step of a value at step 0 is omitted, as every reader expects.
  EXPECT_EQ(event_of([](EventWriter& writer) { writer.add_scalar("a", 1, 0); }),
            time + "2a0a" + "0a08" + "0a0161" + "150000803f");
  EXPECT_EQ(event_of([](EventWriter& writer) { writer.add_scalar("a", 1, 1, 2.0); }),
            "090000000000000040"
            "1001"
            "2a0a"
            "0a08"
            "0a0161"
            "150000803f");
  EXPECT_EQ(event_of([](EventWriter& writer) { writer.add_text("a", "hi", 1); }),
            time + "1001" + "2a1f" + "0a1d" + "0a0161" +  //
                "420c" + "0807" + "1204" + "1202" + "0801" + "4202" + "6869" + "4a0a" + "0a06" +
                "0a0474657874" + "2002");
  Histogram histogram{.min = 1, .max = 2, .num = 3, .sum = 5, .sum_squares = 9};
  histogram.limits = {1, 2};
  histogram.counts = {1, 2};
  EXPECT_EQ(event_of([&](EventWriter& writer) { writer.add_histogram("a", histogram, 1); }),
            time + "1001" + "2a58" + "0a56" + "0a0161" + "2a51" +  //
                "09000000000000f03f" + "110000000000000040" + "190000000000000840" +
                "210000000000001440" + "290000000000002240" +
                "3210000000000000f03f0000000000000040" + "3a10000000000000f03f0000000000000040");
}

std::vector<std::byte> png_start(int color_type) {
  std::string text("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x05\0\0\0\3\x08", 25);
  text += static_cast<char>(color_type);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(EventWriter, ImagesSayTheirSize) {
  const auto event = event_of([](EventWriter& writer) { writer.add_image("a", png_start(2), 1); });
  EXPECT_EQ(event,
            "0900000000004a9340"
            "1001"
            "2a29"
            "0a27"
            "0a0161"
            "2222"
            "0803"
            "1005"
            "1803"
            "221a"
            "89504e470d0a1a0a0000000d4948445200000005000000030802");
  const auto channels = [](int color_type) {
    const std::string text =
        event_of([&](EventWriter& writer) { writer.add_image("a", png_start(color_type), 1); });
    return text.substr(text.find("08031005") + 8, 4);
  };
  EXPECT_EQ(channels(0), "1801");
  EXPECT_EQ(channels(3), "1803");
  EXPECT_EQ(channels(4), "1802");
  EXPECT_EQ(channels(6), "1804");
}

TEST(EventWriter, APictureOfOurOwn) {
  // Two grey pixels, 0 and 255: 00 00 ff, packed with the smallest window of zlib.
  const std::vector<std::uint8_t> pixels{0, 255};
  const std::vector<std::byte> png = encode_png(pixels, {1, 1, 2});
  const std::string event = event_of([&](EventWriter& writer) { writer.add_image("a", png, 7); });
  EXPECT_EQ(event,
            "0900000000004a9340"
            "1007"
            "2a53"
            "0a51"
            "0a0161"
            "224c"
            "0801"
            "1002"
            "1801"
            "2244"
            "89504e470d0a1a0a"
            "0000000d49484452"
            "00000002000000010800000000d1492056"
            "0000000b49444154"
            "08996360f80f00010201005ab525df"
            "0000000049454e44ae426082");
}

TEST(EventWriter, FileNamesSayWhenWhereAndWho) {
  const TempFolder folder;
  EventWriterOptions options = at_1234();
  options.suffix = ".train";
  const EventWriter first(folder.path("a/b/"), options);
  const EventWriter second(folder.path("a/b"), options);
  EXPECT_NE(first.path(), second.path());
  EXPECT_THAT(std::filesystem::path(first.path()).filename().string(),
              MatchesRegex("events\\.out\\.tfevents\\.0000001234\\.[^/]+\\." +
                           std::to_string(getpid()) + "\\.[0-9]+\\.train"));
  EXPECT_EQ(std::filesystem::path(first.path()).parent_path(), folder.path("a/b"));
}

TEST(EventWriter, NamesThatExistAreLeftAlone) {
  const TempFolder folder;
  const std::string first = EventWriter(folder.path(), at_1234()).path();
  const std::size_t dot = first.rfind('.') + 1;
  const std::string next = first.substr(0, dot) + std::to_string(std::stoi(first.substr(dot)) + 1);
  folder.write(std::filesystem::path(next).filename().string(), {7});
  EXPECT_NE(EventWriter(folder.path(), at_1234()).path(), next);
  EXPECT_EQ(TempFolder::read(next), data::Bytes({7}));
}

TEST(EventWriter, AResumedRunTakesTheRestBack) {
  const TempFolder folder;
  EventWriterOptions options = at_1234();
  options.resume_step = 7;
  const EventWriter writer(folder.path(), options);
  const std::string record = contents(writer.path()).substr(kVersionRecord.size() / 2);
  EXPECT_EQ(hex(record.substr(12, record.size() - 16)),
            "0900000000004a9340"
            "1007"
            "3a020801");
}

TEST(EventWriter, BuffersOnDemand) {
  const TempFolder folder;
  EventWriterOptions options = at_1234();
  options.flush_each = false;
  std::string path;
  {
    EventWriter writer(folder.path(), options);
    path = writer.path();
    writer.add_scalar("loss", 0.25, 7);
    EXPECT_EQ(contents(path), "");
    writer.flush();
    EXPECT_EQ(hex(contents(path)), std::string(kVersionRecord) + std::string(kScalarRecord));
    writer.add_text("long", std::string(70'000, 'x'), 8);
    EXPECT_GT(contents(path).size(), 70'000U);
    writer.add_scalar("loss", 0.25, 7);
  }
  const std::string text = hex(contents(path));
  EXPECT_EQ(text.substr(text.size() - kScalarRecord.size()), kScalarRecord);
}

TEST(EventWriter, AKilledProcessLosesNothingThatWasFlushed) {
  const TempFolder folder;
  message_in_child([&] {
    EventWriter writer(folder.path(), at_1234());
    writer.add_scalar("loss", 0.25, 7);
    _exit(0);
  });
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    text += hex(contents(entry.path().string()));
  }
  EXPECT_EQ(text, std::string(kVersionRecord) + std::string(kScalarRecord));
}

// Writes half of its data, then fails with that error.
FileCallHook fail_half_way(int error) {
  return [error](const FileCallInfo& info) {
    if (info.call != FileCall::kWrite) return 0;
    const auto half = info.bytes.first(info.bytes.size() / 2);
    return ::write(info.file, half.data(), half.size()) < 0 ? EIO : error;
  };
}

TEST(EventWriter, AFullDiskLeavesWholeEventsAndLosesNone) {
  const TempFolder folder;
  EventWriter writer(folder.path(), at_1234());
  set_file_call_hook(fail_half_way(ENOSPC));
  EXPECT_EQ(message_of<DiskError>([&] { writer.add_scalar("loss", 0.25, 7); }),
            "[tensorboard] " + writer.path() +
                ": cannot be written: No space left on device. Free some space or write elsewhere");
  EXPECT_EQ(hex(contents(writer.path())), kVersionRecord);
  // Covers the case that the written part cannot be removed immediately.
  set_file_call_hook([half = fail_half_way(ENOSPC)](const FileCallInfo& info) {
    return info.call == FileCall::kTruncate ? EIO : half(info);
  });
  EXPECT_THROW(writer.flush(), FileError);
  EXPECT_GT(hex(contents(writer.path())).size(), kVersionRecord.size());
  set_file_call_hook({});
  writer.flush();
  EXPECT_EQ(hex(contents(writer.path())), std::string(kVersionRecord) + std::string(kScalarRecord));
}

TEST(EventWriter, FailuresAtTheEndAreWarnings) {
  const TempFolder folder;
  std::vector<std::string> lines;
  logging::set_sink([&](logging::Topic, std::string_view line) { lines.emplace_back(line); });
  {
    EventWriterOptions options = at_1234();
    options.flush_each = false;
    const EventWriter writer(folder.path(), options);
    set_file_call_hook(fail_half_way(ENOSPC));
  }
  set_file_call_hook({});
  logging::set_sink({});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("events are lost: [tensorboard]"));
}

// A caller who got an exception needs no warning, unless more has been lost since.
TEST(EventWriter, FailuresAreToldOnce) {
  const TempFolder folder;
  std::vector<std::string> lines;
  logging::set_sink([&](logging::Topic, std::string_view line) { lines.emplace_back(line); });
  {
    EventWriter writer(folder.path(), at_1234());
    set_file_call_hook(fail_half_way(ENOSPC));
    EXPECT_THROW(writer.add_scalar("loss", 0.25, 7), DiskError);
  }
  set_file_call_hook({});
  EXPECT_THAT(lines, testing::IsEmpty());
  {
    EventWriterOptions options = at_1234();
    options.flush_each = false;
    EventWriter writer(folder.path(), options);
    writer.add_scalar("loss", 0.25, 7);
    set_file_call_hook(fail_half_way(ENOSPC));
    EXPECT_THROW(writer.flush(), DiskError);
    writer.add_scalar("loss", 0.125, 8);
  }
  set_file_call_hook({});
  logging::set_sink({});
  EXPECT_EQ(lines.size(), 1U);
}

TEST(EventWriter, RefusesWhatItCannotSay) {
  const TempFolder folder;
  EventWriter writer(folder.path(), at_1234());
  const auto refuses = [&](const auto& action, const std::string& message) {
    EXPECT_THAT(message_of<ArgumentError>(action), HasSubstr(message));
  };
  refuses([&] { writer.add_scalar("", 1, 1); }, "the tag is empty");
  refuses([&] { writer.add_scalar("\xff", 1, 1); }, "the tag is not UTF-8");
  refuses([&] { writer.add_text("a", "\xff", 1); }, "the text is not UTF-8");
  refuses([&] { writer.add_histogram("a", {}, 1); }, "0 limits and 0 counts");
  Histogram histogram;
  histogram.limits = {1, 1};
  histogram.counts = {1};
  refuses([&] { writer.add_histogram("a", histogram, 1); }, "2 limits and 1 counts");
  histogram.counts = {1, 1};
  refuses([&] { writer.add_histogram("a", histogram, 1); }, "do not increase");
  histogram.limits = {1, NAN};
  refuses([&] { writer.add_histogram("a", histogram, 1); }, "a limit of the histogram is NaN");
  refuses([&] { writer.add_histogram("a", {.limits = {NAN}, .counts = {1}}, 1); }, "is NaN");
  histogram.limits = {1, 2};
  histogram.counts = {1, -1};
  refuses([&] { writer.add_histogram("a", histogram, 1); }, "a count that is negative or NaN");
  refuses([&] { writer.add_image("a", {}, 1); }, "0 bytes that do not start with its signature");
  refuses([&] { writer.add_image("a", png_start(5), 1); }, "not a PNG file");
  EXPECT_EQ(hex(contents(writer.path())), kVersionRecord);
  EXPECT_THAT(message_of<FileError>([] { EventWriter("/proc/none"); }), HasSubstr("[tensorboard]"));
}

// The sum of the counts between edges, with the bucket edges that a reader computes.
double bucket_sum(const Histogram& histogram, double from, double to) {
  double sum = 0;
  for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
    if (histogram.limits[i] > from && histogram.limits[i] <= to) sum += histogram.counts[i];
  }
  return sum;
}

TEST(Histogram, CountsEveryFiniteElementOnce) {
  const Tensor tensor = from_values<double>(
      {1e30, -1e30, 0, -0.0, 1e-13, -1e-13, 3, 3, -4, HUGE_VAL, -HUGE_VAL, std::nan("")}, {3, 4});
  const Histogram histogram = histogram_of(tensor);
  EXPECT_EQ(histogram.num, 9);
  EXPECT_EQ(histogram.min, -1e30);
  EXPECT_EQ(histogram.max, 1e30);
  EXPECT_EQ(histogram.sum, 2);
  EXPECT_EQ(histogram.sum_squares, 2 * (1e30 * 1e30));
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 9);
  EXPECT_TRUE(std::ranges::is_sorted(histogram.limits, std::less_equal<>()));
  EXPECT_EQ(bucket_sum(histogram, 2.7, 3.4), 2);
  EXPECT_EQ(bucket_sum(histogram, -1e-12, 0), 3);  // both zeros and -1e-13
  EXPECT_EQ(bucket_sum(histogram, 0, 1e-12), 1);
  EXPECT_GT(histogram.counts.front(), 0);
  EXPECT_GT(histogram.counts.back(), 0);
  // Between non-empty buckets there is at most one empty one.
  const auto pair = std::ranges::adjacent_find(histogram.counts,
                                               [](double a, double b) { return a == 0 && b == 0; });
  EXPECT_EQ(pair, histogram.counts.end());
}

TEST(Histogram, BucketsAreATenthWide) {
  for (const double value : {-7.0, 1e-6, 0.3, 123.0}) {
    const Histogram histogram = histogram_of(from_values<double>({value}, {1}));
    ASSERT_EQ(histogram.limits.size(), 1U) << value;
    EXPECT_GE(histogram.limits[0], value);
    EXPECT_LE(histogram.limits[0] - value, 0.1 * std::abs(value) * (1 + 1e-12));
  }
}

TEST(Histogram, ExtremesAreThoseOfTheElements) {
  for (const double sign : {1.0, -1.0}) {
    const Histogram histogram = histogram_of(from_values<double>({sign * 2, sign * 5}, {2}));
    EXPECT_EQ(histogram.min, sign > 0 ? 2 : -5);
    EXPECT_EQ(histogram.max, sign > 0 ? 5 : -2);
  }
}

TEST(Histogram, OfNothingIsEmpty) {
  for (const Tensor& tensor : {zeros({0}), full({2}, HUGE_VAL)}) {
    const Histogram histogram = histogram_of(tensor);
    EXPECT_EQ(histogram.num, 0);
    EXPECT_THAT(histogram.counts, ElementsAre(0));
    const std::string event =
        event_of([&](EventWriter& writer) { writer.add_histogram("a", histogram, 1); });
    EXPECT_FALSE(event.empty());
  }
}

TEST(Histogram, SixteenBitTensorsToo) {
  EXPECT_EQ(histogram_of(full({3}, 2, DType::kBf16)).sum, 6);
  EXPECT_EQ(histogram_of(full({3}, 2, DType::kF16)).sum, 6);
}

}  // namespace
}  // namespace mezzo::io
