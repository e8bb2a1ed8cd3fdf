// Rotary position embedding: sines and cosines of all positions, then one pass over x.
#include <cmath>
#include <complex>
#include <numeric>
#include <vector>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/rope_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

// cos and sin of all angles of one position, each [pairs].
struct Angles {
  const float* cosines;
  const float* sines;
};

// The sines and cosines of a list of positions. They are computed in f64: an f32 angle of position
// 100,000 would be off by 0.004 radians.
class AngleTable {
 public:
  AngleTable(const std::vector<std::int64_t>& positions, std::int64_t pairs, const RopeAttrs& attrs)
      : pairs_(pairs), values_(2 * positions.size() * static_cast<std::size_t>(pairs)) {
    const std::vector<Turn> turns = turns_of(attrs);
    const auto count = static_cast<std::int64_t>(positions.size());
    const std::int64_t grain = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, pairs));
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      Base base{turns};
      for (std::int64_t p = begin; p < end; ++p) {
        fill(p, positions[static_cast<std::size_t>(p)], base, attrs.inverse);
      }
    });
  }

  Angles of(std::int64_t number) const {
    const float* cosines = values_.data() + number * 2 * pairs_;
    return {cosines, cosines + pairs_};
  }

 private:
  // A position is a multiple of kStep plus a rest, and its rotation the product of theirs. So a
  // sine is computed for one position in kStep, or more often where positions are not in order; the
  // results do not depend on that.
  static constexpr std::int64_t kStep = 16;
  struct Turn {
    double frequency;
    std::complex<double> by[kStep];
  };
  struct Base {
    explicit Base(const std::vector<Turn>& all) : turns(all), rotations(all.size()) {}
    void move_to(std::int64_t wanted) {
      if (is_set && wanted == position) return;
      is_set = true;
      position = wanted;
      for (std::size_t i = 0; i < turns.size(); ++i) {
        rotations[i] = std::polar(1.0, static_cast<double>(position) * turns[i].frequency);
      }
    }
    const std::vector<Turn>& turns;
    std::vector<std::complex<double>> rotations;
    std::int64_t position = 0;
    bool is_set = false;
  };

  std::vector<Turn> turns_of(const RopeAttrs& attrs) const {
    std::vector<Turn> turns(static_cast<std::size_t>(pairs_));
    for (std::int64_t i = 0; i < pairs_; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(pairs_);
      Turn& turn = turns[static_cast<std::size_t>(i)];
      turn.frequency = std::pow(attrs.theta, exponent);
      for (std::int64_t k = 0; k < kStep; ++k) {
        turn.by[k] = std::polar(1.0, static_cast<double>(k) * turn.frequency);
      }
    }
    return turns;
  }

  void fill(std::int64_t number, std::int64_t position, Base& base, bool inverse) {
    const std::int64_t rest = (position % kStep + kStep) % kStep;
    base.move_to(position - rest);
    float* cosines = values_.data() + number * 2 * pairs_;
    for (std::int64_t i = 0; i < pairs_; ++i) {
      const std::complex<double>& a = base.rotations[static_cast<std::size_t>(i)];
      const std::complex<double>& b = base.turns[static_cast<std::size_t>(i)].by[rest];
      const double sine = a.real() * b.imag() + a.imag() * b.real();
      cosines[i] = static_cast<float>(a.real() * b.real() - a.imag() * b.imag());
      cosines[pairs_ + i] = static_cast<float>(inverse ? -sine : sine);
    }
  }

  std::int64_t pairs_;
  std::vector<float> values_;
};

template <class T>
void rotate_halves(const T* x, const Angles& angles, std::int64_t pairs, T* y) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto a = static_cast<float>(x[i]);
    const auto b = static_cast<float>(x[pairs + i]);
    y[i] = T(a * angles.cosines[i] - b * angles.sines[i]);
    y[pairs + i] = T(b * angles.cosines[i] + a * angles.sines[i]);
  }
}

template <class T>
void rotate_neighbours(const T* x, const Angles& angles, std::int64_t pairs, T* y) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto a = static_cast<float>(x[2 * i]);
    const auto b = static_cast<float>(x[2 * i + 1]);
    y[2 * i] = T(a * angles.cosines[i] - b * angles.sines[i]);
    y[2 * i + 1] = T(b * angles.cosines[i] + a * angles.sines[i]);
  }
}

std::vector<std::int64_t> positions_of(const KernelArgs& args, std::int64_t length) {
  const std::int64_t offset = args.attrs<RopeAttrs>().offset;
  std::vector<std::int64_t> positions;
  if (args.has(1)) {
    const Tensor given = dense(args.input(1), Format::kContiguous);
    const auto* from = given.data<std::int64_t>();
    positions.assign(from, from + given.numel());
    // Beyond 2^53 f64 cannot count, and near the ends of i64 the sum would overflow. The offset
    // itself has been checked.
    constexpr std::int64_t kMost = std::int64_t{1} << 53;
    for (std::int64_t& position : positions) {
      check_arg(position >= -kMost - offset && position <= kMost - offset, "rope", "position ",
                position, " with offset ", offset, " is beyond 2^53. Give a smaller one");
      position += offset;
    }
  } else {
    positions.resize(static_cast<std::size_t>(length));
    std::iota(positions.begin(), positions.end(), offset);
  }
  return positions;
}

void rope_kernel(const KernelArgs& args) {
  const auto& attrs = args.attrs<RopeAttrs>();
  const Tensor x = dense(args.input(0), Format::kContiguous);
  if (x.numel() == 0) return;
  const RopeRows rows = rope_rows(x.shape(), attrs.axis, args.has(1) && args.input(1).rank() == 2);
  const AngleTable table(positions_of(args, rows.length), rows.pairs, attrs);
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (2 * rows.pairs));
  const bool halves = attrs.pairing == RopePairing::kHalves;
  visit_vector_dtype(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = args.output().mutable_data<T>();
    parallel_for(rows.count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const Angles angles = table.of(rows.position_of(row));
        const std::int64_t at = row * 2 * rows.pairs;
        (halves ? rotate_halves<T> : rotate_neighbours<T>)(from + at, angles, rows.pairs, to + at);
      }
    });
  });
}

Support supports_rope(const KernelArgs& args) {
  return is_vector_dtype(args.input(0).dtype()) ? Support::yes()
                                                : Support::no("only f32, bf16 and f16");
}

}  // namespace

extern const KernelList rope{{{{"cpu_plain", supports_rope, rope_kernel}}}};

}  // namespace mezzo::kernels::cpu
