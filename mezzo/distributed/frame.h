// What processes say to each other before they exchange data, and to show that they live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mezzo::distributed {

enum class FrameKind : std::uint8_t {
  kGreeting = 1,  // process 0 to whoever connects: which run it belongs to
  kHello,         // the answer: which process has come
  kRefused,       // process 0: why it may not take part
  kRoster,        // process 0: all have come, and these they are
  kBeat,          // I live
  kSet,           // to process 0: keep this value under this key
  kGet,           // to process 0: send the value of this key once it is there
  kValue,         // process 0: here it is
  kLeaving,       // to process 0: this process ends with this status
  kAllLeft,       // process 0: all have announced that they end without an error
  kEnd,           // process 0: end with this status, the reason has been reported
};

struct Frame {
  FrameKind kind = FrameKind::kBeat;
  std::string payload = {};
};

// A longer payload is refused.
inline constexpr std::size_t kLongestPayload = std::size_t{1} << 20;

// As bytes: the length of the payload in four of them, the lowest first, the kind in one, the
// payload.
std::string encoded(FrameKind kind, std::string_view payload);

// Puts frames together from bytes that arrive in parts of any size.
class FrameReader {
 public:
  void add(std::string_view bytes);
  // The next whole frame. Throws Error if the bytes are no frame.
  std::optional<Frame> next();

 private:
  std::string bytes_;
};

// A payload is a sequence of numbers and texts.
class PayloadWriter {
 public:
  PayloadWriter& number(std::uint32_t value);
  // With its length before it.
  PayloadWriter& text(std::string_view value);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what PayloadWriter wrote, which must live as long. Its functions throw Error if there is
// less than that.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : bytes_(bytes) {}
  std::uint32_t number();
  std::string text();
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t count);

  std::string_view bytes_;
};

}  // namespace mezzo::distributed
