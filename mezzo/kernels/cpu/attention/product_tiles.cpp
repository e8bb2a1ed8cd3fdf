#include "mezzo/kernels/cpu/attention/product_tiles.h"

#include <atomic>

namespace mezzo::kernels::attention {
namespace {

#if MEZZO_TILES

// The intrinsics take the numbers of registers as literals. Inlined, a switch is one of its cases.
struct TileInstructions {
  MEZZO_TILE_TARGET static void zero(int sum) {
    switch (sum) {
      case 0: _tile_zero(0); break;
      case 1: _tile_zero(1); break;
      case 2: _tile_zero(2); break;
      default: _tile_zero(3); break;
    }
  }
  MEZZO_TILE_TARGET static void load(int tile, const char* from, std::int64_t pitch) {
    switch (tile) {
      case 0: _tile_loadd(0, from, pitch); break;
      case 1: _tile_loadd(1, from, pitch); break;
      case 2: _tile_loadd(2, from, pitch); break;
      case 3: _tile_loadd(3, from, pitch); break;
      case 4: _tile_loadd(4, from, pitch); break;
      case 5: _tile_loadd(5, from, pitch); break;
      case 6: _tile_loadd(6, from, pitch); break;
      default: _tile_loadd(7, from, pitch); break;
    }
  }
  MEZZO_TILE_TARGET static void store(int sum, char* to, std::int64_t pitch) {
    switch (sum) {
      case 0: _tile_stored(0, to, pitch); break;
      case 1: _tile_stored(1, to, pitch); break;
      case 2: _tile_stored(2, to, pitch); break;
      default: _tile_stored(3, to, pitch); break;
    }
  }
  MEZZO_TILE_TARGET static void add_products(int sum) {
    switch (sum) {
      case 0: _tile_dpbf16ps(0, 4, 6); break;
      case 1: _tile_dpbf16ps(1, 4, 7); break;
      case 2: _tile_dpbf16ps(2, 5, 6); break;
      default: _tile_dpbf16ps(3, 5, 7); break;
    }
  }
};

MEZZO_TILE_TARGET void multiply_on_unit(const TileProduct& product) {
  // The compiler does not know that tile loads read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  multiply_in_tiles<TileInstructions>(product);
}

#else

void multiply_on_unit(const TileProduct&) {}

#endif

}  // namespace

const TileUnit& tile_unit() {
  static constexpr TileUnit kUnit{multiply_on_unit, true};
  return kUnit;
}

}  // namespace mezzo::kernels::attention
