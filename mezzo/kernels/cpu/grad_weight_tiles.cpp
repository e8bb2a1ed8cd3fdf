#include "mezzo/kernels/cpu/grad_weight_tiles.h"

#include <array>

#include "mezzo/core/cpu.h"

#if defined(__x86_64__) && defined(__linux__)
#if !defined(__clang__)
// gcc 12 says of its own intrinsics that they read what they leave undefined on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define MEZZO_TILES 1
#else
#define MEZZO_TILES 0
#endif

namespace mezzo::kernels::grad_weight {

#if MEZZO_TILES

namespace {

#define MEZZO_TILE_TARGET __attribute__((target("avx512f,amx-tile,amx-bf16")))

constexpr std::int64_t kBlock = 256;         // elements of 16 x 16
constexpr int kRowBytes = 64;                // of a tile
constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of Linux 5.16
constexpr long kTileData = 18;               // XFEATURE_XTILEDATA

// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

MEZZO_TILE_TARGET inline __m512 lower_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
MEZZO_TILE_TARGET inline __m512 upper_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// Four rows: afterwards quarter k of out[j] is column 4 k + j of the four.
MEZZO_TILE_TARGET inline void weave(const float* in, __m512* out) {
  const __m512 r0 = _mm512_loadu_ps(in);
  const __m512 r1 = _mm512_loadu_ps(in + 16);
  const __m512 r2 = _mm512_loadu_ps(in + 32);
  const __m512 r3 = _mm512_loadu_ps(in + 48);
  const __m512 a = _mm512_unpacklo_ps(r0, r1);
  const __m512 b = _mm512_unpackhi_ps(r0, r1);
  const __m512 c = _mm512_unpacklo_ps(r2, r3);
  const __m512 d = _mm512_unpackhi_ps(r2, r3);
  out[0] = lower_pairs(a, c);
  out[1] = upper_pairs(a, c);
  out[2] = lower_pairs(b, d);
  out[3] = upper_pairs(b, d);
}

MEZZO_TILE_TARGET void transpose_block(float* data) {
  __m512 woven[16];
  for (std::int64_t i = 0; i < 4; ++i) weave(data + 64 * i, woven + 4 * i);
  for (std::int64_t i = 0; i < 4; ++i) {
    const __m512 a = _mm512_shuffle_f32x4(woven[i], woven[i + 4], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(woven[i], woven[i + 4], 0xdd);
    const __m512 c = _mm512_shuffle_f32x4(woven[i + 8], woven[i + 12], 0x88);
    const __m512 d = _mm512_shuffle_f32x4(woven[i + 8], woven[i + 12], 0xdd);
    _mm512_storeu_ps(data + 16 * i, _mm512_shuffle_f32x4(a, c, 0x88));
    _mm512_storeu_ps(data + 16 * (i + 4), _mm512_shuffle_f32x4(b, d, 0x88));
    _mm512_storeu_ps(data + 16 * (i + 8), _mm512_shuffle_f32x4(a, c, 0xdd));
    _mm512_storeu_ps(data + 16 * (i + 12), _mm512_shuffle_f32x4(b, d, 0xdd));
  }
}

// Tiles 0 to 3 are the sums, 4 and 5 those of a, 6 and 7 those of b.
template <int kA, int kB>
MEZZO_TILE_TARGET void multiply(const TileRun& run, const TileOperands& o) {
  if (run.first) {
    _tile_zero(0);
    if (kB == 2) _tile_zero(1);
    if (kA == 2) _tile_zero(2);
    if (kA == 2 && kB == 2) _tile_zero(3);
  } else {
    _tile_loadd(0, o.c[0][0], kRowBytes);
    if (kB == 2) _tile_loadd(1, o.c[0][1], kRowBytes);
    if (kA == 2) _tile_loadd(2, o.c[1][0], kRowBytes);
    if (kA == 2 && kB == 2) _tile_loadd(3, o.c[1][1], kRowBytes);
  }
  for (std::int64_t slot = 0; slot < run.slots; ++slot) {
    for (std::int64_t block = 0; block < run.blocks; ++block) {
      const std::int64_t a = slot * run.a_slot + block * kBlock;
      const std::int64_t b = slot * run.b_slot + block * kBlock;
      _tile_loadd(6, o.b[0] + b, kRowBytes);
      _tile_loadd(4, o.a[0] + a, kRowBytes);
      _tile_dpbf16ps(0, 4, 6);
      if (kB == 2) {
        _tile_loadd(7, o.b[1] + b, kRowBytes);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (kA == 2) {
        _tile_loadd(5, o.a[1] + a, kRowBytes);
        _tile_dpbf16ps(2, 5, 6);
      }
      if (kA == 2 && kB == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, o.c[0][0], kRowBytes);
  if (kB == 2) _tile_stored(1, o.c[0][1], kRowBytes);
  if (kA == 2) _tile_stored(2, o.c[1][0], kRowBytes);
  if (kA == 2 && kB == 2) _tile_stored(3, o.c[1][1], kRowBytes);
}

MEZZO_TILE_TARGET void configure() {
  static constexpr TileConfig
      kConfig;  // not a local: the intrinsic only shows that 8 bytes are read
  _tile_loadconfig(&kConfig);
}
MEZZO_TILE_TARGET void release() { _tile_release(); }

}  // namespace

bool has_tiles() {
  static const bool kGranted = cpu_features().amx_bf16 && cpu_features().avx512 &&
                               syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return kGranted;
}

TileRegisters::TileRegisters() { configure(); }
TileRegisters::~TileRegisters() { release(); }

MEZZO_TILE_TARGET void transpose_blocks(float* data, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) transpose_block(data + i * kBlock);
}

void multiply_tiles(const TileRun& run, const TileOperands& operands) {
  const bool two_a = operands.a[1] != nullptr;
  const bool two_b = operands.b[1] != nullptr;
  if (two_a && two_b) return multiply<2, 2>(run, operands);
  if (two_a) return multiply<2, 1>(run, operands);
  if (two_b) return multiply<1, 2>(run, operands);
  multiply<1, 1>(run, operands);
}

#else

bool has_tiles() { return false; }
TileRegisters::TileRegisters() = default;
TileRegisters::~TileRegisters() = default;
void transpose_blocks(float*, std::int64_t) {}
void multiply_tiles(const TileRun&, const TileOperands&) {}

#endif

}  // namespace mezzo::kernels::grad_weight
