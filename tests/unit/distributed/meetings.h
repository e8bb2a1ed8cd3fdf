// Processes that meet over this host's way to itself, as threads of one process.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/distributed/connection.h"
#include "mezzo/distributed/meeting.h"

namespace mezzo::test {

inline constexpr const char* kThisHost = "127.0.0.1";
// Much longer than anything takes here.
inline constexpr std::chrono::seconds kPatience(60);

inline int free_port() {
  const distributed::Handle listener = distributed::listen_at(kThisHost, 0);
  return distributed::port_of(listener);
}

// What a process has got from its meeting.
struct Arrival {
  distributed::Meeting meeting = {};
  std::string error = {};
  bool was_ended = false;  // by process 0
};

inline Arrival arrive(const distributed::Launch& launch, std::chrono::milliseconds patience) {
  Arrival arrival;
  try {
    arrival.meeting = meet_all(launch, patience);
  } catch (const distributed::EndedByFirst&) {
    arrival.was_ended = true;
  } catch (const Error& error) {
    arrival.error = error.what();
  }
  return arrival;
}

inline std::vector<Arrival> arrive_all(const std::vector<distributed::Launch>& launches,
                                       std::chrono::milliseconds patience = kPatience) {
  std::vector<Arrival> arrivals(launches.size());
  std::vector<std::thread> threads;
  threads.reserve(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    threads.emplace_back([&, i] { arrivals[i] = arrive(launches[i], patience); });
  }
  for (std::thread& thread : threads) thread.join();
  return arrivals;
}

// As many processes, the last one first.
inline std::vector<distributed::Launch> launches_of(int size, int port) {
  std::vector<distributed::Launch> launches;
  launches.reserve(static_cast<std::size_t>(size));
  for (int rank = size - 1; rank >= 0; --rank) {
    launches.push_back({.rank = rank, .size = size, .address = kThisHost, .port = port});
  }
  return launches;
}

// The meetings of as many processes, by rank.
inline std::vector<distributed::Meeting> meetings_of(int size) {
  std::vector<Arrival> arrivals = arrive_all(launches_of(size, free_port()));
  std::vector<distributed::Meeting> meetings(arrivals.size());
  for (Arrival& arrival : arrivals) {
    if (!arrival.error.empty()) throw Error(arrival.error);
    meetings[static_cast<std::size_t>(arrival.meeting.rank)] = std::move(arrival.meeting);
  }
  return meetings;
}

}  // namespace mezzo::test
