// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a pure function of (seed, position), so the same stream comes out whatever the number
// of threads, and a stream can be replayed or continued from two integers.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "mezzo/core/tensor.h"

namespace mezzo {

// The four 32-bit words at `counter` of the stream `key`.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

// A position in a stream: word i of the stream is philox word (offset + i).
struct RandomPosition {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;

  bool operator==(const RandomPosition&) const = default;
};

// The beginning of a block of four words as elements of an i64 tensor: the lower and upper 32 bits
// of the seed, followed by those of the block's index. Two 64-bit elements would not do, because
// reference kernels read elements as doubles, which hold fewer bits.
inline constexpr std::int64_t kPositionParts = 4;
// Throws ArgumentError unless `position` is the beginning of a block.
Tensor to_tensor(RandomPosition position);
template <class Part>
constexpr RandomPosition position_from(const Part* parts) {
  const auto number = [](Part low, Part high) {
    return static_cast<std::uint64_t>(low) | static_cast<std::uint64_t>(high) << 32U;
  };
  return {number(parts[0], parts[1]), 4 * number(parts[2], parts[3])};
}

// A stream of random numbers with a current position.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : position_{seed, 0} {}

  // Selects the stream and returns to its beginning.
  void set_seed(std::uint64_t seed) { position_ = {seed, 0}; }
  RandomPosition position() const { return position_; }
  void set_position(RandomPosition position) { position_ = position; }

  // Returns the current position and advances by `words` 32-bit words, rounded up to whole blocks
  // of four.
  RandomPosition reserve(std::uint64_t words);

  // The next 32 random bits.
  std::uint32_t next();
  // Uniform in [0, 1) with 24 random bits.
  float uniform();
  // Uniform in [0, bound), without bias. Throws ArgumentError if bound is 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  RandomPosition position_;
};

// The generator that initialisers and dropout use on this thread.
Generator& default_generator();
// Seeds default_generator().
void manual_seed(std::uint64_t seed);

// Restores the position of default_generator() when it ends, so that the same numbers are drawn
// again.
class KeepRandomPosition {
 public:
  KeepRandomPosition() : before_(default_generator().position()) {}
  ~KeepRandomPosition() { default_generator().set_position(before_); }
  KeepRandomPosition(const KeepRandomPosition&) = delete;
  KeepRandomPosition& operator=(const KeepRandomPosition&) = delete;

 private:
  RandomPosition before_;
};

// 24 random bits as an f32 value in [0, 1).
inline float to_unit(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

// out[i] comes from word i of the stream: uniform in [low, high).
void fill_uniform(std::span<float> out, RandomPosition position, float low, float high);
// Normal distribution, by the Box-Muller transform: numbers 2 i and 2 i + 1 come from words 2 i and
// 2 i + 1.
void fill_normal(std::span<float> out, RandomPosition position, float mean, float deviation);

// f32 tensors of random numbers from `generator`.
Tensor rand(const Shape& shape, Generator& generator = default_generator());
Tensor randn(const Shape& shape, Generator& generator = default_generator());

}  // namespace mezzo
