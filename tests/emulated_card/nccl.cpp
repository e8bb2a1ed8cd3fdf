// NCCL on the emulated card. Its processes are threads of this one, each with a card of its own.
//
// A call waits for the other processes and then queues the exchange in the streams of all. When one
// of them is waited for, the others run as far as the same exchange, and all parts are copied.
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

#include "mezzo/core/error.h"
#include "mezzo/kernels/cuda/nccl_library.h"
#include "tests/emulated_card/failure.h"
#include "tests/emulated_card/memory.h"
#include "tests/emulated_card/nccl_watch.h"
#include "tests/emulated_card/queue.h"

namespace mezzo::emulated_card {
namespace {

// A block that goes to a process, or comes from it.
struct Parcel {
  int peer = 0;
  char* data = nullptr;
  std::size_t bytes = 0;
};

// What one process calls.
struct Part {
  std::string call;
  cudaStream_t stream = nullptr;
  std::int64_t before = 0;  // the end of the work in its stream that comes before the exchange
  std::vector<Parcel> sends{};
  std::vector<Parcel> receives{};
};

struct Exchange {
  std::vector<Part> parts;
  bool is_done = false;

  // Copies from all processes to all. Device memory is accessible.
  void run();

 private:
  void fill(std::size_t receiver);
};

void Exchange::run() {
  if (is_done) return;
  is_done = true;
  for (const Part& part : parts) run_up_to(part.stream, part.before);
  for (std::size_t receiver = 0; receiver < parts.size(); ++receiver) fill(receiver);
}

// Parcels between two processes arrive in the order in which they were sent.
void Exchange::fill(std::size_t receiver) {
  std::vector<std::size_t> taken(parts.size(), 0);
  for (const Parcel& to : parts[receiver].receives) {
    const auto sender = static_cast<std::size_t>(to.peer);
    const std::vector<Parcel>& sends = parts[sender].sends;
    std::size_t& next = taken[sender];
    while (next < sends.size() && sends[next].peer != static_cast<int>(receiver)) ++next;
    if (next == sends.size()) give_up("ncclRecv() of what nobody sends: it would wait for ever");
    if (sends[next].bytes != to.bytes) {
      give_up("NCCL sends " + std::to_string(sends[next].bytes) +
              " bytes to a process that takes " + std::to_string(to.bytes));
    }
    std::memmove(to.data, sends[next].data, to.bytes);
    ++next;
  }
}

// The processes of a communicator.
struct Room {
  explicit Room(int processes) : size(processes), cards(static_cast<std::size_t>(processes), -1) {}

  int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t round = 0;  // meetings that are over
  int arrived = 0;
  std::shared_ptr<Exchange> exchange;
  std::vector<int> cards;  // of each process

  // Waits for all processes; the last to come calls `last`.
  template <class Last>
  void meet(std::unique_lock<std::mutex>& lock, const Last& last) {
    const std::int64_t own = round;
    if (++arrived == size) {
      last();
      arrived = 0;
      ++round;
      changed.notify_all();
    } else {
      changed.wait(lock, [&] { return round != own; });
    }
  }
};

std::mutex rooms_mutex;
std::map<std::string, std::shared_ptr<Room>> rooms;
int keys = 0;

std::mutex watch_mutex;
bool is_missing = false;
int failing_rank = -1;
bool fails_later = false;
NcclCounts counts;

void count(std::int64_t NcclCounts::*which, std::int64_t change) {
  const std::lock_guard lock(watch_mutex);
  counts.*which += change;
}

thread_local std::string last_error;

ncclResult_t refuse_nccl(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}

}  // namespace

void set_nccl_missing(bool missing) {
  const std::lock_guard lock(watch_mutex);
  is_missing = missing;
}

void set_nccl_init_failure(int rank) {
  const std::lock_guard lock(watch_mutex);
  failing_rank = rank;
}

void set_nccl_async_failure(bool fails) {
  const std::lock_guard lock(watch_mutex);
  fails_later = fails;
}

NcclCounts nccl_counts() {
  const std::lock_guard lock(watch_mutex);
  return counts;
}

}  // namespace mezzo::emulated_card

using namespace mezzo::emulated_card;  // NOLINT(google-build-using-namespace): the card's own calls

struct ncclComm {
  int rank = 0;
  int card = 0;
  std::shared_ptr<Room> room;
};

namespace mezzo::emulated_card {
namespace {

// The group of calls that this thread is making.
struct OpenGroup {
  int depth = 0;
  ncclComm_t comm = nullptr;
  Part part{.call = "ncclGroupEnd"};
};

thread_local OpenGroup open_group;

// Queues the exchange in the streams of all processes at once.
void queue_everywhere(const std::shared_ptr<Exchange>& exchange) {
  const std::lock_guard lock(machine());
  for (Part& part : exchange->parts) {
    if (part.call != exchange->parts[0].call) {
      give_up("processes call different functions of NCCL: " + exchange->parts[0].call + " and " +
              part.call);
    }
    part.before = end_of(part.stream);
    if (queue(part.stream, [exchange] { exchange->run(); }) != cudaSuccess) {
      give_up("NCCL cannot use the stream");
    }
  }
  count(&NcclCounts::exchanges, 1);
}

ncclResult_t exchange_with_all(ncclComm_t comm, Part part) {
  Room& room = *comm->room;
  std::unique_lock lock(room.mutex);
  if (room.exchange == nullptr) {
    room.exchange = std::make_shared<Exchange>();
    room.exchange->parts.resize(static_cast<std::size_t>(room.size));
  }
  room.exchange->parts[static_cast<std::size_t>(comm->rank)] = std::move(part);
  room.meet(lock, [&] { queue_everywhere(std::exchange(room.exchange, nullptr)); });
  return ncclSuccess;
}

ncclResult_t check_call(ncclComm_t comm, const void* data, std::size_t bytes, cudaStream_t stream) {
  if (comm == nullptr) give_up("NCCL is called without a communicator");
  const std::lock_guard lock(machine());
  if (bytes > 0 && (type_of(data) != cudaMemoryTypeDevice || card_at(data) != comm->card)) {
    give_up("NCCL is given memory that is not its card's");
  }
  if (stream == nullptr || card_of(stream) != comm->card) {
    return refuse_nccl(ncclInvalidArgument, "the stream belongs to another card");
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  static_cast<void>(cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusNone) give_up("NCCL in recordings is not emulated");
  return ncclSuccess;
}

// All of mezzo's exchanges are of bytes.
std::size_t bytes_in(std::size_t count, ncclDataType_t type) {
  if (type != ncclInt8 && type != ncclUint8) give_up("only bytes are emulated in NCCL");
  return count;
}

char* block(const void* data) { return static_cast<char*>(const_cast<void*>(data)); }

ncclResult_t add_to_group(std::vector<Parcel> Part::*where, Parcel parcel, ncclComm_t comm,
                          cudaStream_t stream) {
  const ncclResult_t result = check_call(comm, parcel.data, parcel.bytes, stream);
  if (result != ncclSuccess) return result;
  if (parcel.peer < 0 || parcel.peer >= comm->room->size) {
    return refuse_nccl(ncclInvalidArgument, "there is no such process");
  }
  if (open_group.depth == 0) give_up("ncclSend() or ncclRecv() outside of a group waits alone");
  open_group.comm = comm;
  open_group.part.stream = stream;
  (open_group.part.*where).push_back(parcel);
  return ncclSuccess;
}

}  // namespace
}  // namespace mezzo::emulated_card

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclSystemError: return "unhandled system error";
    default: return "an error";
  }
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(rooms_mutex);
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "communicator %d", ++keys);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  *comm = nullptr;
  if (size < 1 || rank < 0 || rank >= size) {
    return refuse_nccl(ncclInvalidArgument, "there is no such process");
  }
  std::shared_ptr<Room> room;
  {
    const std::lock_guard lock(rooms_mutex);
    std::shared_ptr<Room>& known = rooms[std::string(id.internal)];
    if (known == nullptr) known = std::make_shared<Room>(size);
    room = known;
  }
  std::unique_lock lock(room->mutex);
  room->cards[static_cast<std::size_t>(rank)] = current_card();
  room->meet(lock, [] {});
  {
    const std::lock_guard watch(watch_mutex);
    if (failing_rank == rank) return refuse_nccl(ncclSystemError, "no room for its threads");
  }
  for (int other = 0; other < size; ++other) {
    if (other != rank && room->cards[static_cast<std::size_t>(other)] == current_card()) {
      return refuse_nccl(ncclInvalidUsage, "Duplicate GPU detected");
    }
  }
  *comm = new ncclComm{rank, current_card(), room};
  count(&NcclCounts::open, 1);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  count(&NcclCounts::open, -1);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  count(&NcclCounts::aborted, 1);
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t /*comm*/, ncclResult_t* error) {
  const std::lock_guard lock(watch_mutex);
  *error = fails_later ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0) return refuse_nccl(ncclInvalidUsage, "no group has begun");
  if (--open_group.depth > 0) return ncclSuccess;
  OpenGroup group = std::exchange(open_group, {});
  return group.comm == nullptr ? ncclSuccess : exchange_with_all(group.comm, std::move(group.part));
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add_to_group(&Part::sends, {peer, block(data), bytes_in(count, type)}, comm, stream);
}

ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_to_group(&Part::receives, {peer, block(data), bytes_in(count, type)}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = bytes_in(count, type);
  for (const void* data : {send, static_cast<const void*>(receive)}) {
    const ncclResult_t result = check_call(comm, data, bytes, stream);
    if (result != ncclSuccess) return result;
  }
  Part part{.call = "ncclAllGather", .stream = stream};
  for (int peer = 0; peer < comm->room->size; ++peer) {
    part.sends.push_back({peer, block(send), bytes});
    part.receives.push_back({peer, block(receive) + static_cast<std::size_t>(peer) * bytes, bytes});
  }
  return exchange_with_all(comm, std::move(part));
}

// NOLINTNEXTLINE(readability-function-size): as many parameters as it has
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = bytes_in(count, type);
  const ncclResult_t result = check_call(comm, receive, bytes, stream);
  if (result != ncclSuccess) return result;
  Part part{.call = "ncclBroadcast", .stream = stream};
  for (int peer = 0; comm->rank == root && peer < comm->room->size; ++peer) {
    part.sends.push_back({peer, block(send), bytes});
  }
  part.receives.push_back({root, block(receive), bytes});
  return exchange_with_all(comm, std::move(part));
}

#define MEZZO_ADDRESS(function) .function = &::function,

namespace mezzo::kernels::cuda {

const Nccl& nccl_library() {
  static constexpr Nccl kLibrary = {MEZZO_NCCL_FUNCTIONS(MEZZO_ADDRESS)};
  const std::lock_guard lock(emulated_card::watch_mutex);
  if (emulated_card::is_missing) {
    fail<DeviceError>("cuda", "NCCL could not be loaded: it was taken away. Install NCCL");
  }
  return kLibrary;
}

}  // namespace mezzo::kernels::cuda
