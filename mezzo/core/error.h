// Typed errors. Every message has the form `[op] what is wrong: the values. What to do.`
#pragma once

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace mezzo {

// Base of every exception that mezzo throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller is wrong: shapes, dtypes, devices, options.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

// The request is well formed but cannot be met here: by this build, CPU, GPU or dtype.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

// A device or an underlying library failed; the message names the call and the library's own text.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// A file is missing, unreadable or not what it claims to be; the message names the file.
class FileError : public Error {
 public:
  using Error::Error;
};

// A file could not be written though its name is good: the disk is full or fails.
class DiskError : public FileError {
 public:
  using FileError::FileError;
};

// The advice for a damaged file, at the end of a message.
inline constexpr std::string_view kCopyAgain = ". Copy or download the file again";

// append_text(out, value) appends one part of a message. Other types define overloads next to
// themselves.
inline void append_text(std::string& out, std::string_view text) { out += text; }

template <class Number>
requires std::is_arithmetic_v<Number>
void append_text(std::string& out, Number value) {
  if constexpr (std::is_same_v<Number, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<Number, char>) {
    out += value;
  } else {
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
    const std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
    // Drop the sign of NaN, which has no meaning: x86 sets it for the result of 0 / 0.
    out += text == "-nan" ? text.substr(1) : text;
  }
}

// Concatenates the parts into one string.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append_text(text, parts), ...);
  return text;
}

// Throws ErrorType with the message `[op] parts...`.
template <class ErrorType = ArgumentError, class... Parts>
[[noreturn]] void fail(std::string_view op, const Parts&... parts) {
  throw ErrorType(concat("[", op, "] ", parts...));
}

// Within a catch block: rethrows what was caught. An ArgumentError or UnsupportedError gets `more`
// at the end of its message.
[[noreturn]] void rethrow_with(std::string_view more);

// Throws ArgumentError `[op] parts...` unless `ok`.
template <class... Parts>
void check_arg(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]] {
    fail<ArgumentError>(op, parts...);
  }
}

namespace detail {
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line);
}

}  // namespace mezzo

// States a condition that must hold if mezzo itself is correct. Checked in debug and sanitizer
// builds, free in release builds.
#ifdef NDEBUG
#define MEZZO_INVARIANT(condition) static_cast<void>(0)
#else
#define MEZZO_INVARIANT(condition) \
  (static_cast<bool>(condition)    \
       ? static_cast<void>(0)      \
       : ::mezzo::detail::invariant_failed(#condition, __FILE__, __LINE__))
#endif
