// Attributes of an operation: a small aggregate per op, held by value behind one type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"
#include "mezzo/ops/dispatcher/attrs_text.h"

namespace mezzo {

template <class T, std::size_t N>
void append_text(std::string& out, const std::array<T, N>& values) {
  out += '[';
  for (std::size_t i = 0; i < N; ++i) {
    if (i > 0) out += ", ";
    append_text(out, values[i]);
  }
  out += ']';
}

inline void append_text(std::string& out, RandomPosition position) {
  append_text(out, position.seed);
  out += '@';
  append_text(out, position.offset);
}

inline bool parse_text(std::string_view text, RandomPosition& position) {
  const std::size_t at = text.find('@');
  return at != text.npos && parse_text(text.substr(0, at), position.seed) &&
         parse_text(text.substr(at + 1), position.offset);
}

// Whether the text of attributes has a field that has its default. Fields that came later are left
// out then, so that texts from before them are still read, and stay what they were.
enum class InText : std::uint8_t { kAlways, kUnlessDefault };

// One named member of an attributes aggregate. An aggregate lists its own:
//
//   struct SoftmaxAttrs {
//     std::int64_t axis = -1;
//     static constexpr auto kFields = std::tuple(Field{"axis", &SoftmaxAttrs::axis});
//     bool operator==(const SoftmaxAttrs&) const = default;
//   };
template <class Aggregate, class Value>
struct Field {
  const char* name;
  Value Aggregate::*member;
  InText in_text = InText::kAlways;
};

template <class Aggregate, class Value>
Field(const char*, Value Aggregate::*) -> Field<Aggregate, Value>;
template <class Aggregate, class Value>
Field(const char*, Value Aggregate::*, InText) -> Field<Aggregate, Value>;

// An attributes aggregate that is a field of another.
template <class T>
concept AttrsAggregate = requires {
  std::tuple_size<decltype(T::kFields)>::value;
};

// Appends the fields, as in `axis=1 start=0`.
template <AttrsAggregate T>
void append_fields(std::string& out, const T& value) {
  const char* separator = "";
  [[maybe_unused]] const auto append = [&](const auto& field) {
    const auto& member = value.*field.member;
    if (field.in_text == InText::kUnlessDefault && member == T{}.*field.member) return;
    out += separator;
    out += field.name;
    out += '=';
    append_text(out, member);
    separator = " ";
  };
  std::apply([&](const auto&... field) { (append(field), ...); }, T::kFields);
}

// Reads one member of T, as text or as what it is where the text leaves it out.
template <AttrsAggregate T, std::size_t I>
constexpr FieldReader field_reader() {
  FieldReader reader{std::get<I>(T::kFields).name, [](std::string_view text, void* attrs) {
                       return parse_text(text,
                                         static_cast<T*>(attrs)->*std::get<I>(T::kFields).member);
                     }};
  if constexpr (std::get<I>(T::kFields).in_text == InText::kUnlessDefault) {
    reader.leave_out = [](void* attrs) {
      constexpr auto kMember = std::get<I>(T::kFields).member;
      static_cast<T*>(attrs)->*kMember = T{}.*kMember;
    };
  }
  return reader;
}

// Readers of the members of T, for text that append_fields() printed.
template <AttrsAggregate T>
constexpr auto field_readers() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<FieldReader, sizeof...(I)>{field_reader<T, I>()...};
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(T::kFields)>>());
}

template <AttrsAggregate T>
void append_text(std::string& out, const T& value) {
  out += '(';
  append_fields(out, value);
  out += ')';
}

template <AttrsAggregate T>
bool parse_text(std::string_view text, T& value) {
  static constexpr auto kReaders = field_readers<T>();
  return text.size() >= 2 && text.front() == '(' && text.back() == ')' &&
         read_fields(text.substr(1, text.size() - 2), kReaders, &value).empty();
}

struct NoAttrs {
  static constexpr std::tuple<> kFields{};
  bool operator==(const NoAttrs&) const = default;
};

// Attributes of any aggregate type, comparable and printable without knowing the type.
class Attrs {
 public:
  Attrs() : Attrs(NoAttrs{}) {}

  template <class T>
  requires(!std::is_same_v<T, Attrs>) Attrs(const T& value)  // NOLINT(google-explicit-constructor)
      : type_(&kType<T>) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(bytes_));
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }

  template <class T>
  const T& as() const {
    MEZZO_INVARIANT(type_ == &kType<T>);
    return *reinterpret_cast<const T*>(bytes_.data());
  }
  template <class T>
  bool holds() const {
    return type_ == &kType<T>;
  }

  bool operator==(const Attrs& other) const {
    return type_ == other.type_ && type_->equal(bytes_.data(), other.bytes_.data());
  }

  // The fields as text, as in `stride=[1, 1] groups=1`.
  std::string to_text() const {
    std::string out;
    type_->print(out, bytes_.data());
    return out;
  }

  // The first field that is a position in a random stream, or null.
  const RandomPosition* random_position() const {
    return type_->random_position(const_cast<std::byte*>(bytes_.data()));
  }
  RandomPosition* random_position() { return type_->random_position(bytes_.data()); }

 private:
  friend Attrs parse_attrs(const Attrs& like, std::string_view text, std::string_view op);

  struct Type {
    bool (*equal)(const void*, const void*);
    void (*print)(std::string&, const void*);
    std::string (*parse)(std::string_view, void*);  // returns what is wrong, or an empty string
    RandomPosition* (*random_position)(void*);
  };

  template <class T>
  static bool equal(const void* a, const void* b) {
    return *static_cast<const T*>(a) == *static_cast<const T*>(b);
  }
  template <class T>
  static void print(std::string& out, const void* attrs) {
    append_fields(out, *static_cast<const T*>(attrs));
  }
  template <class T>
  static std::string parse(std::string_view text, void* attrs) {
    static constexpr auto kReaders = field_readers<T>();
    return read_fields(text, kReaders, attrs);
  }
  template <class T>
  static RandomPosition* random_position_in(void* attrs) {
    RandomPosition* found = nullptr;
    [[maybe_unused]] const auto look_at = [&found](auto& value) {
      if constexpr (std::is_same_v<decltype(value), RandomPosition&>) {
        if (found == nullptr) found = &value;
      }
    };
    [[maybe_unused]] T& value = *static_cast<T*>(attrs);
    std::apply([&](const auto&... field) { (look_at(value.*field.member), ...); }, T::kFields);
    return found;
  }
  template <class T>
  static constexpr Type kType{equal<T>, print<T>, parse<T>, random_position_in<T>};

  alignas(8) std::array<std::byte, 112> bytes_;
  const Type* type_;
};

// Parses text that Attrs::to_text() printed, for the same aggregate type as `like`. Throws
// ArgumentError naming `op` unless the text gives every field exactly once and nothing else. Fields
// that are left out where they have their default may be missing.
Attrs parse_attrs(const Attrs& like, std::string_view text, std::string_view op = "attributes");

}  // namespace mezzo
