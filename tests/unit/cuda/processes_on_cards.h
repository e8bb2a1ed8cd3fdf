// Runs the processes of a group as threads, whose tensors are on cards.
#pragma once

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/device.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/distributed/process_group.h"
#include "mezzo/distributed/tensors.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/distributed/processes.h"

namespace mezzo::test {

// How they exchange: by NCCL, each with a card of its own, or through the host, all with one card.
enum class Route { kNccl, kHost };

inline const char* name_of(Route route) { return route == Route::kNccl ? "NCCL" : "host"; }

inline Device card_of(const distributed::ProcessGroup& group, Route route) {
  return {DeviceType::kCuda, static_cast<std::int8_t>(route == Route::kNccl ? group.rank() : 0)};
}

// Whether so many processes can exchange in that way here: NCCL takes as many cards.
inline bool has_route(Route route, int size) {
  if (route == Route::kHost) return true;
  const int cards = static_cast<int>(devices().size()) - 1;
  return cards >= size && backend_of(kCard).engine_maker() != nullptr;
}

inline std::vector<Route> routes_of(int size) {
  if (!has_route(Route::kNccl, size)) return {Route::kHost};
  return {Route::kNccl, Route::kHost};
}

// The route that a group has in fact.
inline Route route_of(const distributed::ProcessGroup& group) {
  return group.device_engine() != nullptr ? Route::kNccl : Route::kHost;
}

using OnCards = std::function<void(distributed::ProcessGroup&, Device)>;

// Runs `body` in that many processes.
inline void on_cards(int size, Route route, const OnCards& body) {
  in_processes(size, [&](distributed::ProcessGroup& group) {
    const Device card = card_of(group, route);
    distributed::use_device(group, card);
    ASSERT_EQ(route_of(group), route);
    body(group, card);
  });
}

}  // namespace mezzo::test
