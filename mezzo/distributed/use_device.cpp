// Agrees on how tensors of devices are exchanged: by engines of all processes, or through the host.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/device_engine.h"
#include "mezzo/core/error.h"
#include "mezzo/core/log.h"
#include "mezzo/distributed/agreement.h"
#include "mezzo/distributed/average.h"
#include "mezzo/distributed/tensors.h"

namespace mezzo::distributed {
namespace {

// Enough for a sentence.
using Sentence = std::array<char, 400>;

// The first reason that a process gives, in all processes; empty if none does.
std::string first_reason(ProcessGroup& group, const std::string& own) {
  Sentence sentence{};
  std::ranges::copy(own.substr(0, sentence.size() - 1), sentence.begin());
  const auto all = gathered(group, std::span<const char>(sentence));
  for (std::size_t at = 0; at < all.size(); at += sentence.size()) {
    if (all[at] == '\0') continue;
    return concat(&all[at], " (process ", at / sentence.size(), ")");
  }
  return {};
}

// Runs `attempt` in all processes; returns the first reason why one failed.
template <class Attempt>
std::string failure_of(ProcessGroup& group, const Attempt& attempt) {
  std::string own;
  try {
    attempt();
  } catch (const Error& error) {
    own = error.what();
  }
  return first_reason(group, own);
}

// Libraries refuse two processes on one device, or wait for ever. `own` tells this one's.
std::string why_shared(ProcessGroup& group, std::string_view own) {
  Hash hash;
  hash.add(own);
  const std::uint64_t value = hash.value();
  const auto all = gathered(group, std::span<const std::uint64_t>(&value, 1));
  for (std::size_t second = 1; second < all.size(); ++second) {
    const auto first = std::ranges::find(all, all[second]) - all.begin();
    if (static_cast<std::size_t>(first) == second) continue;
    return concat("processes ", first, " and ", second, " share a card");
  }
  return {};
}

// The key of process 0, in all processes. If it could not be made, `why` says the reason.
std::vector<std::byte> shared_key(ProcessGroup& group, const DeviceEngineMaker& maker,
                                  std::string& why) {
  std::vector<std::byte> key;
  why = failure_of(group, [&] {
    if (group.rank() == 0) key = maker.make_key();
  });
  if (!why.empty()) return {};
  auto bytes = static_cast<std::int64_t>(key.size());
  broadcast(group, bytes);
  key.resize(static_cast<std::size_t>(bytes));
  group.broadcast(key);
  return key;
}

// Makes the engine of this process, or returns why there is none; the same in all processes.
std::string make_engine(ProcessGroup& group, Device device, std::unique_ptr<DeviceEngine>& engine) {
  const DeviceEngineMaker* maker = nullptr;
  std::string identity;
  std::string why = failure_of(group, [&] {
    maker = backend_of(device).engine_maker();
    if (maker == nullptr) fail<UnsupportedError>("distributed", "mezzo was built without NCCL");
    maker->check();
    identity = maker->identity_of(device);
  });
  if (!why.empty()) return why;
  if (why = why_shared(group, identity); !why.empty()) return why;
  const std::vector<std::byte> key = shared_key(group, *maker, why);
  if (!why.empty()) return why;
  return failure_of(group, [&] { engine = maker->make(key, group.rank(), group.size(), device); });
}

}  // namespace

Device own_card() {
  const Device first{DeviceType::kCuda, 0};
  const int cards = backend_of(first).count();
  return {first.type, static_cast<std::int8_t>(local_rank() % cards)};
}

// All have engines or none: a process that exchanges through the host would wait for others that do
// not.
void use_device(ProcessGroup& group, Device device) {
  if (group.size() == 1) return;
  check_same(group, "distributed", "whether the device is a card (1) or the CPU (0)",
             device.is_cpu() ? 0 : 1, "Train on the same kind of device in every process");
  if (device.is_cpu() || !any(group, group.used_device() != device)) return;
  group.set_device_engine(device, nullptr);
  std::unique_ptr<DeviceEngine> engine;
  const std::string why = make_engine(group, device, engine);
  if (why.empty()) {
    group.set_device_engine(device, std::move(engine));
  } else if (group.rank() == 0) {
    logging::write(logging::Topic::kWarning,
                   "processes exchange through host memory, not by NCCL: ", why);
  }
}

}  // namespace mezzo::distributed
