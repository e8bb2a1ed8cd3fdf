// Shared code of the emulated libraries: elements in device memory, matrix products, and reports of
// refusals.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mezzo/core/float8.h"
#include "mezzo/core/half.h"
#include "tests/emulated_card/failure.h"
#include "tests/emulated_card/memory.h"
#include "tests/emulated_card/queue.h"

namespace mezzo::emulated_card {

// Reports that a library refuses something. Callers then try something else. They would do so after
// a mistake, too, and the program would silently be slow, so a mistake ends the program. Other
// refusals are printed to stderr if MEZZO_EMULATED_CARD_LOG is set.
inline void report_refusal(const char* call, const std::string& why, bool is_mistake) {
  const std::string text = std::string(call) + ": " + why;
  if (is_mistake) give_up(text);
  static const bool is_on = std::getenv("MEZZO_EMULATED_CARD_LOG") != nullptr;  // NOLINT
  if (is_on) std::fprintf(stderr, "emulated card: %s\n", text.c_str());
}

// The existing objects of a library, so that destroyed ones and those of others are recognised.
class Register {
 public:
  void add(const void* object) {
    const std::lock_guard lock(mutex_);
    objects_.insert(object);
  }
  bool remove(const void* object) {
    const std::lock_guard lock(mutex_);
    return objects_.erase(object) > 0;
  }
  bool has(const void* object) {
    const std::lock_guard lock(mutex_);
    return objects_.count(object) > 0;
  }

 private:
  std::mutex mutex_;
  std::set<const void*> objects_;
};

inline bool is_on_card(const void* data) {
  const std::lock_guard lock(machine());
  return type_of(data) != cudaMemoryTypeUnregistered;
}

inline bool is_aligned(const void* data, std::uint64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

// Bytes [begin, end) of a tensor.
struct ByteRange {
  const char* begin;
  const char* end;

  ByteRange(const void* data, std::size_t bytes)
      : begin(static_cast<const char*>(data)), end(begin + bytes) {}
  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

// Fills a workspace with ones, which are NaNs: its contents must not matter before and after a
// call.
inline void spoil(void* workspace, std::size_t bytes) {
  constexpr int kOnes = 0xFF;
  if (bytes > 0) std::memset(workspace, kOnes, bytes);
}

enum class Element : std::uint8_t { kF32, kBf16, kF16, kE4m3, kE5m2 };

inline bool is_eight_bit(Element element) {
  return element == Element::kE4m3 || element == Element::kE5m2;
}
inline std::size_t size_of(Element element) {
  if (is_eight_bit(element)) return 1;
  return element == Element::kF32 ? 4 : 2;
}

// Calls use(a null pointer to the C++ type of an element).
template <class Use>
void visit_element(Element element, const Use& use) {
  switch (element) {
    case Element::kF32: return use(static_cast<const float*>(nullptr));
    case Element::kBf16: return use(static_cast<const BFloat16*>(nullptr));
    case Element::kF16: return use(static_cast<const Float16*>(nullptr));
    case Element::kE4m3: return use(static_cast<const Float8E4M3*>(nullptr));
    case Element::kE5m2: return use(static_cast<const Float8E5M2*>(nullptr));
  }
}

// Converts elements `first`, `first + step`, ... of an array.
inline void widen(Element element, const void* array, std::int64_t first, std::int64_t step,
                  std::int64_t count, float* to) {
  visit_element(element, [&]<class T>(const T* /*type*/) {
    const T* from = static_cast<const T*>(array) + first;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i * step]);
  });
}

inline float widen(Element element, const void* array, std::int64_t at) {
  float value = 0;
  widen(element, array, at, 1, 1, &value);
  return value;
}

inline void narrow(Element element, float value, void* array, std::int64_t at) {
  visit_element(element, [&]<class T>(const T* /*type*/) {
    static_cast<T*>(array)[at] = static_cast<T>(value);
  });
}

inline float round_to(Element element, float value) {
  if (element == Element::kF32) return value;
  return element == Element::kBf16 ? static_cast<float>(BFloat16(value))
                                   : static_cast<float>(Float16(value));
}

// Rounds an f32 value as Tensor Cores do for TF32: 11 significant bits, ties to even.
inline float round_to_tf32(float value) {
  constexpr std::uint32_t kDropped = 0x1fffU;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000U) == 0x7f800000U) return value;  // infinity and NaN
  const std::uint32_t rounded = bits + (kDropped >> 1U) + ((bits >> 13U) & 1U);
  return std::bit_cast<float>(rounded & ~kDropped);
}

// The right-hand matrix of products, [depth, columns], stored with kWidth adjacent columns per row:
// the order in which add_product() reads it.
class Panels {
 public:
  static constexpr std::int64_t kWidth = 8;

  Panels(std::int64_t depth, std::int64_t columns)
      : depth_(depth),
        columns_((columns + kWidth - 1) / kWidth * kWidth),
        values_(static_cast<std::size_t>(depth * columns_), 0.0F) {}

  std::int64_t depth() const { return depth_; }
  std::int64_t columns() const { return columns_; }  // rounded up
  const float* panel(std::int64_t column) const { return values_.data() + column * depth_; }
  void set(std::int64_t row, std::int64_t column, float value) {
    values_[static_cast<std::size_t>((column / kWidth * depth_ + row) * kWidth + column % kWidth)] =
        value;
  }
  void set_row(std::int64_t row, const float* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) set(row, i, from[i]);
  }

 private:
  std::int64_t depth_, columns_;
  std::vector<float> values_;
};

// sums [kRows, b.columns()] += a [kRows, b.depth()] b, in one panel of b. Some hundred terms are
// added up in f32 and these parts in f64, which is about as precise as a GPU with its many threads.
template <int kRows>
void add_panel(const float* a, const Panels& b, std::int64_t column, double* sums) {
  using Lanes = float __attribute__((vector_size(Panels::kWidth * sizeof(float))));
  constexpr std::int64_t kPart = 256;
  const float* panel = b.panel(column);
  for (std::int64_t first = 0; first < b.depth(); first += kPart) {
    const std::int64_t last = std::min(first + kPart, b.depth());
    Lanes part[kRows] = {};
    for (std::int64_t i = first; i < last; ++i) {
      Lanes factors;
      std::memcpy(&factors, panel + i * Panels::kWidth, sizeof(factors));
      for (int row = 0; row < kRows; ++row) part[row] += a[row * b.depth() + i] * factors;
    }
    for (int row = 0; row < kRows; ++row) {
      double* to = sums + row * b.columns() + column;
      for (int lane = 0; lane < Panels::kWidth; ++lane) {
        to[lane] += static_cast<double>(part[row][lane]);
      }
    }
  }
}

// sums [rows, b.columns()] += a [rows, b.depth()] b.
inline void add_product(const float* a, std::int64_t rows, const Panels& b, double* sums) {
  constexpr int kTile = 4;
  for (std::int64_t row = 0; row < rows;) {
    const bool is_whole = row + kTile <= rows;
    for (std::int64_t column = 0; column < b.columns(); column += Panels::kWidth) {
      const float* from = a + row * b.depth();
      double* to = sums + row * b.columns();
      is_whole ? add_panel<kTile>(from, b, column, to) : add_panel<1>(from, b, column, to);
    }
    row += is_whole ? kTile : 1;
  }
}

}  // namespace mezzo::emulated_card
