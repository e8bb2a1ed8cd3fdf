#include "mezzo/kernels/cpu/gemm/tiles.h"

#include <array>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

#if MEZZO_TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace mezzo::kernels {

#if MEZZO_TILES

namespace {

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

// The intrinsic only declares that 8 bytes are read; the asm makes the compiler store all of them.
MEZZO_TILE_TARGET void load(const TileConfig& config) {
  asm volatile("" : : "m"(config));
  _tile_loadconfig(&config);
}
MEZZO_TILE_TARGET void configure() { load(TileConfig()); }
MEZZO_TILE_TARGET void configure(std::int64_t numbers) {
  TileConfig config;
  for (const std::size_t first : {4, 5}) {
    config.row_bytes[first] = static_cast<std::uint16_t>(2 * numbers);
    config.rows[first + 2] = static_cast<std::uint8_t>(numbers / 2);
  }
  load(config);
}
MEZZO_TILE_TARGET void release() { _tile_release(); }

}  // namespace

bool has_tiles() {
  static const bool kGranted = cpu_features().amx_bf16 && cpu_features().avx512_bf16 &&
                               syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return kGranted;
}

TileRegisters::TileRegisters() { configure(); }
TileRegisters::TileRegisters(std::int64_t numbers) { configure(numbers); }
TileRegisters::~TileRegisters() { release(); }

MEZZO_TILE_TARGET void transpose_blocks(float* data, std::int64_t blocks) {
  auto* bytes = reinterpret_cast<char*>(data);
  for (std::int64_t i = 0; i < blocks; ++i) {
    transpose_tile(bytes + i * kTileBytes, kTileRowBytes, bytes + i * kTileBytes);
  }
}

#else

bool has_tiles() { return false; }
TileRegisters::TileRegisters() = default;
TileRegisters::TileRegisters(std::int64_t) {}
TileRegisters::~TileRegisters() = default;
void transpose_blocks(float*, std::int64_t) {}

#endif

std::optional<Bf16Unit> bf16_unit() {
  if (has_tiles()) return Bf16Unit::kTiles;
  return has_fast_bf16_dot() ? std::optional(Bf16Unit::kDots) : std::nullopt;
}

}  // namespace mezzo::kernels
