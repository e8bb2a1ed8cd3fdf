#include "mezzo/io/npy_header.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <limits>
#include <optional>

#include "mezzo/core/error.h"
#include "mezzo/core/math.h"
#include "mezzo/io/utf8.h"

namespace mezzo::io {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kAlignment = 64;  // of the data in files that mezzo writes, as in numpy's

struct NpyType {
  DType dtype;
  std::string_view name;  // without the byte order
};

constexpr NpyType kNpyTypes[] = {
    {DType::kF16, "f2"}, {DType::kF32, "f4"}, {DType::kF64, "f8"},  {DType::kI32, "i4"},
    {DType::kI64, "i8"}, {DType::kU8, "u1"},  {DType::kBool, "b1"},
};

// Text from a file, in which any byte may occur, made printable.
std::string shown(std::string_view text) {
  std::string printable(text.substr(0, 60));
  std::ranges::replace_if(
      printable, [](char c) { return static_cast<unsigned char>(c) >= 0x7f; }, '?');
  return in_quotes(printable);
}

// Parses the one dict that a header consists of: three known keys in any order, each once.
class DictReader {
 public:
  DictReader(std::string_view source, std::string_view text) : source_(source), rest_(text) {}

  NpyHeader read() {
    expect('{');
    while (!accept('}')) {
      read_field(read_text());
      if (accept('}')) break;
      expect(',');
    }
    skip_space();
    if (!rest_.empty()) wrong("the end");
    if (!seen_.all()) {
      fail<FileError>(kNpyOp, source_, ": the header has ", seen_.count(),
                      " fields, expected descr, fortran_order and shape", kCopyAgain);
    }
    return header_;
  }

 private:
  void read_field(std::string_view name) {
    constexpr std::string_view kNames[] = {"descr", "fortran_order", "shape"};
    const auto* const found = std::ranges::find(kNames, name);
    if (found == std::end(kNames)) {
      fail<FileError>(kNpyOp, source_, ": unknown field ", shown(name),
                      ", expected descr, fortran_order and shape", kCopyAgain);
    }
    const auto field = static_cast<std::size_t>(found - std::begin(kNames));
    if (seen_[field]) {
      fail<FileError>(kNpyOp, source_, ": ", shown(name), " occurs twice", kCopyAgain);
    }
    seen_.set(field);
    expect(':');
    if (field == 0) {
      read_dtype();
    } else if (field == 1) {
      read_order();
    } else {
      read_shape();
    }
  }

  void read_dtype() {
    skip_space();
    if (rest_.starts_with('[')) {
      fail<FileError>(kNpyOp, source_, ": its elements are records, mezzo supports ",
                      known_dtypes(), ". Save one field of the array");
    }
    const std::string_view name = read_text();
    const auto* const known =
        std::ranges::find(kNpyTypes, name.empty() ? name : name.substr(1), &NpyType::name);
    const char order = name.empty() ? '\0' : name[0];
    // `|` stands for elements of one byte, which have no order.
    const bool order_fits =
        known != std::end(kNpyTypes) &&
        (order == '<' || order == '>' || (order == '|' && size_of(known->dtype) == 1));
    if (!order_fits) {
      fail<FileError>(kNpyOp, source_, ": its dtype is ", shown(name), ", mezzo supports ",
                      known_dtypes(), ". Convert the array with astype() and save it again");
    }
    header_.dtype = known->dtype;
    header_.big_endian = order == '>' && size_of(known->dtype) > 1;
  }

  void read_order() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      header_.fortran_order = value;
      return;
    }
    wrong("True or False");
  }

  // `()`, `(3,)`, `(3, 4)`. Python 2 wrote long sizes as `3L`.
  void read_shape() {
    expect('(');
    while (!accept(')')) {
      add_size(read_size());
      if (rest_.starts_with('L')) rest_.remove_prefix(1);
      if (accept(')')) {
        // `(3)` is a number, not a tuple.
        if (header_.shape.rank() == 1) wrong("a comma after the only size");
        break;
      }
      expect(',');
    }
  }

  std::uint64_t read_size() {
    skip_space();
    std::uint64_t value = 0;
    const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (result.ec == std::errc::invalid_argument) wrong("an integer of at least 0");
    if (result.ec != std::errc() || value > std::uint64_t{kMaxSize}) {
      fail<FileError>(kNpyOp, source_, ": impossible size: ", shown(rest_.substr(0, 24)),
                      kCopyAgain);
    }
    rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
    return value;
  }

  void add_size(std::uint64_t size) {
    if (header_.shape.rank() == kMaxRank) {
      fail<FileError>(kNpyOp, source_, ": it has more than ", kMaxRank,
                      " dimensions, the most that mezzo supports. Reshape it and save it again");
    }
    header_.shape.push_back(static_cast<std::int64_t>(size));
  }

  // The text in quotes. No text that a header may hold has escapes.
  std::string_view read_text() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    if (quote != '\'' && quote != '"') wrong("text in quotes");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) wrong("text in quotes");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool accept(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) wrong(concat("'", c, "'"));
  }

  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpace), rest_.size()));
  }

  [[noreturn]] void wrong(std::string_view expected) const {
    fail<FileError>(kNpyOp, source_, ": the header is not what numpy writes: found ",
                    rest_.empty() ? "its end" : shown(rest_.substr(0, 24)), ", expected ", expected,
                    kCopyAgain);
  }

  static std::string known_dtypes() {
    std::string text;
    for (const NpyType& known : kNpyTypes) {
      text += concat(text.empty() ? "" : " ", name_of(known.dtype));
    }
    return text;
  }

  static constexpr std::int64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

  std::string_view source_;
  std::string_view rest_;
  std::bitset<3> seen_;
  NpyHeader header_;
};

// Even if a size is 0, the others must be valid, since strides are computed from them.
std::optional<std::uint64_t> bytes_of(const NpyHeader& header) {
  std::uint64_t bytes = size_of(header.dtype);
  for (const std::int64_t size : header.shape) {
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    bytes *= factor;
  }
  return std::ranges::count(header.shape, 0) > 0 ? 0 : bytes;
}

}  // namespace

std::size_t npy_length_bytes(std::string_view source, std::span<const std::byte> fixed) {
  if (fixed.size() < kNpyFixed) {
    fail<FileError>(kNpyOp, source, ": short file: it has ", fixed.size(),
                    " bytes, the format begins ", "with ", kNpyFixed, kCopyAgain);
  }
  if (std::memcmp(fixed.data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    fail<FileError>(kNpyOp, source,
                    ": not an .npy file: it does not begin with \\x93NUMPY. Save it with np.save; "
                    "for an .npz archive, unpack the arrays");
  }
  const auto major = std::to_integer<int>(fixed[kNpyMagic.size()]);
  const auto minor = std::to_integer<int>(fixed[kNpyMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    fail<FileError>(kNpyOp, source, ": version ", major, ".", minor,
                    " of the format, mezzo reads 1.0, 2.0 and 3.0. Save it with np.save");
  }
  return major == 1 ? 2 : 4;
}

NpyHeader parse_npy_header(std::string_view source, std::string_view text,
                           std::uint64_t data_size) {
  const NpyHeader header = DictReader(source, text).read();
  const std::optional<std::uint64_t> bytes = bytes_of(header);
  if (!bytes) fail<FileError>(kNpyOp, source, ": impossible size: ", header.shape, kCopyAgain);
  if (*bytes != data_size) {
    fail<FileError>(kNpyOp, source, ": ", *bytes > data_size ? "short file" : "too long", ": ",
                    name_of(header.dtype), header.shape, " takes ", *bytes, " bytes, the file has ",
                    data_size, kCopyAgain);
  }
  return header;
}

std::string format_npy_header(const Tensor& tensor) {
  check_arg(tensor.defined(), kNpyOp, "the tensor is undefined. Give it values first");
  const auto* const known = std::ranges::find(kNpyTypes, tensor.dtype(), &NpyType::dtype);
  check_arg(known != std::end(kNpyTypes), kNpyOp, "numpy has no ", tensor.dtype(), ": ", tensor,
            ". Cast it to f32, which holds every ", tensor.dtype(), " value, or write safetensors");
  std::string sizes;
  for (const std::int64_t size : tensor.shape()) sizes += concat(size, ", ");
  // A tuple of one element keeps its trailing comma; longer ones have none.
  sizes.resize(sizes.size() - (tensor.rank() == 0 ? 0 : tensor.rank() == 1 ? 1 : 2));
  std::string text = concat("{'descr': '", size_of(tensor.dtype()) == 1 ? '|' : '<', known->name,
                            "', 'fortran_order': False, 'shape': (", sizes, "), }");
  const std::size_t before = kNpyFixed + 2;
  const std::size_t whole = round_up(before + text.size() + 1, kAlignment);
  text.resize(whole - before - 1, ' ');
  text += '\n';

  std::string header(reinterpret_cast<const char*>(kNpyMagic.data()), kNpyMagic.size());
  header += {'\1', '\0'};
  const auto length = static_cast<std::uint16_t>(text.size());  // at most 6 sizes of 19 digits
  header += {static_cast<char>(length & 0xffU), static_cast<char>(length >> 8)};
  return header + text;
}

}  // namespace mezzo::io
