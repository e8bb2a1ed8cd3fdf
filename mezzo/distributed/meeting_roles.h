// The two sides of a meeting: see meeting.h.
#pragma once

#include <chrono>
#include <string_view>

#include "mezzo/distributed/meeting.h"

namespace mezzo::distributed {

// In a greeting and its answer, before anything else; the number is that of what follows.
inline constexpr std::string_view kMeetingWord = "mezzo meeting 1";

using MeetingTime = std::chrono::steady_clock::time_point;

Participant this_process();

// Where process 0 listens. Throws DeviceError if it cannot.
Handle listen_as_first(const Launch& launch);
// Process 0, which listens there.
Meeting receive_all(const Launch& launch, Handle listener, std::chrono::milliseconds patience);
// Another process, which listens for others itself at `port`, if it is not 0.
Meeting join_first(const Launch& launch, int port, std::chrono::milliseconds patience);

}  // namespace mezzo::distributed
