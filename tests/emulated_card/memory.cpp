#include "tests/emulated_card/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sys/mman.h>

#include "tests/emulated_card/failure.h"
#include "tests/emulated_card/queue.h"

namespace mezzo::emulated_card {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

constexpr std::size_t kAlignment = 256;  // of cudaMalloc()
constexpr int kOnes = 0xFF;

struct Block {
  std::size_t bytes;
  cudaMemoryType type;
  int card = current_card();  // of the thread that took it
};

std::map<const char*, Block>& blocks() {
  static auto* all = new std::map<const char*, Block>;
  return *all;
}

std::size_t round_up(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

char* arena() {
  static char* const start = [] {
    // Pages take memory of the machine only once they are touched.
    void* room =
        mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) give_up("no address space for the card's memory");
    // Large pages: protecting many small ones would take longer than most kernels.
    static_cast<void>(madvise(room, kRoom, MADV_HUGEPAGE));
    return static_cast<char*>(room);
  }();
  return start;
}

int depth = 0;  // nested Access objects
std::size_t used_by_others = 0;

void protect(int access) {
  if (mprotect(arena(), kRoom, access) != 0) give_up("the card's memory cannot be protected");
}

bool overlaps(const char* start, std::size_t bytes, const std::pair<const char* const, Block>& b) {
  return start < b.first + round_up(b.second.bytes) && b.first < start + round_up(bytes);
}

// The first gap that is large enough.
char* find_room(std::size_t bytes) {
  char* start = arena();
  for (const auto& block : blocks()) {
    if (block.second.type != cudaMemoryTypeDevice) continue;
    if (!overlaps(start, bytes, block)) break;
    start = const_cast<char*>(block.first) + round_up(block.second.bytes);
  }
  return start + round_up(bytes) <= arena() + kRoom ? start : nullptr;
}

void* take_from_host(std::size_t bytes, cudaMemoryType type) {
  // Not rounded up, so that the address sanitizer finds accesses one byte past the end.
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, std::max<std::size_t>(bytes, 1)) != 0) return nullptr;
  std::memset(block, kOnes, bytes);
  blocks()[static_cast<const char*>(block)] = {bytes, type};
  return block;
}

// Null for ordinary memory.
const Block* block_at(const void* data) {
  const auto* byte = static_cast<const char*>(data);
  auto found = blocks().upper_bound(byte);
  if (found == blocks().begin()) return nullptr;
  --found;
  return byte < found->first + found->second.bytes ? &found->second : nullptr;
}

}  // namespace

Access::Access() {
  if (!kIsSanitized && depth++ == 0) protect(PROT_READ | PROT_WRITE);
}

Access::~Access() {
  if (!kIsSanitized && --depth == 0) protect(PROT_NONE);
}

std::size_t free_bytes() {
  std::size_t used = used_by_others;
  for (const auto& [start, block] : blocks()) {
    if (block.type == cudaMemoryTypeDevice) used += round_up(block.bytes);
  }
  return kRoom - std::min(used, kRoom);
}

void set_used_by_others(std::size_t bytes) { used_by_others = bytes; }

void* take_memory(std::size_t bytes) {
  if (bytes > kRoom) return nullptr;
  if (kIsSanitized) return take_from_host(bytes, cudaMemoryTypeDevice);
  char* start = find_room(bytes);
  if (start == nullptr) return nullptr;
  const Access access;
  std::memset(start, kOnes, round_up(bytes));
  blocks()[start] = {bytes, cudaMemoryTypeDevice};
  return start;
}

void* take_pinned(std::size_t bytes) { return take_from_host(bytes, cudaMemoryTypeHost); }

bool give_back_memory(void* block) {
  const auto found = blocks().find(static_cast<const char*>(block));
  if (found == blocks().end()) return false;
  if (kIsSanitized || found->second.type == cudaMemoryTypeHost) std::free(block);
  blocks().erase(found);
  return true;
}

cudaMemoryType type_of(const void* data) {
  const Block* block = block_at(data);
  return block != nullptr ? block->type : cudaMemoryTypeUnregistered;
}

int card_at(const void* data) {
  const Block* block = block_at(data);
  return block != nullptr && block->type == cudaMemoryTypeDevice ? block->card : current_card();
}

}  // namespace mezzo::emulated_card
