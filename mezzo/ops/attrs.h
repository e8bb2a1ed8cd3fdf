// Attributes of an operation: a small aggregate per op, held by value behind one type.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "mezzo/core/dtype.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/core/shape.h"

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
};

template <class Aggregate, class Value>
Field(const char*, Value Aggregate::*) -> Field<Aggregate, Value>;

struct NoAttrs {
  static constexpr std::tuple<> kFields{};
  bool operator==(const NoAttrs&) const = default;
};

// Any attributes aggregate: comparable and printable without knowing which.
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

  // `stride=[1, 1] groups=1`.
  std::string to_text() const {
    std::string out;
    type_->print(out, bytes_.data());
    return out;
  }

 private:
  struct Type {
    bool (*equal)(const void*, const void*);
    void (*print)(std::string&, const void*);
  };
  template <class T>
  static bool equal(const void* a, const void* b) {
    return *static_cast<const T*>(a) == *static_cast<const T*>(b);
  }
  template <class T>
  static void print(std::string& out, const void* attrs) {
    const T& value = *static_cast<const T*>(attrs);
    const char* separator = "";
    std::apply(
        [&](const auto&... field) {
          ((out += separator, out += field.name, out += '=', append_text(out, value.*field.member),
            separator = " "),
           ...);
        },
        T::kFields);
  }
  template <class T>
  static constexpr Type kType{equal<T>, print<T>};

  alignas(8) std::array<std::byte, 112> bytes_;
  const Type* type_;
};

}  // namespace mezzo
