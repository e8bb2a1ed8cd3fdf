#include "mezzo/distributed/tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"

namespace mezzo::distributed {
namespace {

constexpr const char* kOpOfTensors = "distributed";
// The most bytes of an exchange from where a tensor lies: the libraries below count in int.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
// The most bytes that are sent at a time through host memory. Copies from and to a card take some
// 10 us each, in which it moves half a megabyte.
constexpr std::size_t kStagedBytes = std::size_t{4} << 20;

void check_dense(const Tensor& tensor) {
  check_arg(tensor.is_one_block(), kOpOfTensors, "a tensor is ", tensor,
            ", and not dense. Processes exchange dense tensors: use copy_of()");
}

void check_pair(const Tensor& send, const Tensor& receive, bool fits) {
  check_dense(send);
  check_dense(receive);
  check_arg(send.device() == receive.device(), kOpOfTensors, "what is sent is on ", send.device(),
            ", what is received on ", receive.device(), ". Use to()");
  check_arg(fits, kOpOfTensors, "what is sent is ", send, ", what is received ", receive,
            ": their bytes do not fit together. Each process has a part of the same length");
}

void note_change(const Tensor& tensor) {
  tensor.storage()->fill_held_copies();
  tensor.bump_version();
}

std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.address()); }

std::span<std::byte> span_of(const Tensor& tensor) { return {bytes_of(tensor), tensor.bytes()}; }

// The engine that exchanges the tensor; null if there is none.
DeviceEngine* engine_for(ProcessGroup& group, const Tensor& tensor) {
  DeviceEngine* engine = group.device_engine();
  return engine != nullptr && engine->device() == tensor.device() ? engine : nullptr;
}

bool is_exchanged_in_place(const Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.bytes() <= kMostBytes;
}

// Host memory for one piece. Each has its own, because cards still read one after the next began.
Tensor host_piece(std::size_t bytes, Device device) {
  const Shape shape{static_cast<std::int64_t>(bytes)};
  return device.is_cpu() ? empty(shape, DType::kU8) : empty_pinned(shape, DType::kU8);
}

void to_host(const Tensor& piece, std::size_t at, const Tensor& from, std::size_t offset,
             std::size_t bytes) {
  copy_bytes(bytes_of(piece) + at, kCpuDevice, bytes_of(from) + offset, from.device(), bytes);
}

void from_host(const Tensor& to, std::size_t offset, const Tensor& piece, std::size_t at,
               std::size_t bytes) {
  copy_bytes(bytes_of(to) + offset, to.device(), bytes_of(piece) + at, kCpuDevice, bytes);
}

// Calls run(offset, bytes) for pieces of at most `most` bytes.
template <class Run>
void for_pieces(std::size_t bytes, std::size_t most, const Run& run) {
  most = std::max(most, std::size_t{1});
  for (std::size_t done = 0; done < bytes; done += most) run(done, std::min(most, bytes - done));
}

void broadcast_staged(ProcessGroup& group, const Tensor& tensor) {
  for_pieces(tensor.bytes(), kStagedBytes, [&](std::size_t offset, std::size_t bytes) {
    const Tensor piece = host_piece(bytes, tensor.device());
    if (group.rank() == 0) to_host(piece, 0, tensor, offset, bytes);
    group.broadcast(span_of(piece));
    if (group.rank() != 0) from_host(tensor, offset, piece, 0, bytes);
  });
}

// A piece has as many bytes of each part.
void all_to_all_staged(ProcessGroup& group, const Tensor& send, const Tensor& receive) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::size_t part = send.bytes() / size;
  for_pieces(part, kStagedBytes / size, [&](std::size_t offset, std::size_t bytes) {
    const Tensor sent = host_piece(size * bytes, send.device());
    const Tensor received = host_piece(size * bytes, send.device());
    for (std::size_t r = 0; r < size; ++r) to_host(sent, r * bytes, send, r * part + offset, bytes);
    group.all_to_all(span_of(sent), span_of(received));
    for (std::size_t r = 0; r < size; ++r) {
      from_host(receive, r * part + offset, received, r * bytes, bytes);
    }
  });
}

void all_gather_staged(ProcessGroup& group, const Tensor& send, const Tensor& receive) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::size_t part = send.bytes();
  for_pieces(part, kStagedBytes / size, [&](std::size_t offset, std::size_t bytes) {
    const Tensor sent = host_piece(bytes, send.device());
    const Tensor received = host_piece(size * bytes, send.device());
    to_host(sent, 0, send, offset, bytes);
    group.all_gather(span_of(sent), span_of(received));
    for (std::size_t r = 0; r < size; ++r) {
      from_host(receive, r * part + offset, received, r * bytes, bytes);
    }
  });
}

}  // namespace

void broadcast(ProcessGroup& group, const Tensor& tensor) {
  check_dense(tensor);
  if (group.size() == 1 || tensor.bytes() == 0) return;
  note_change(tensor);
  if (DeviceEngine* engine = engine_for(group, tensor); engine != nullptr) {
    group.begin_broadcast(tensor.bytes());
    engine->broadcast(tensor.address(), tensor.bytes());
  } else if (is_exchanged_in_place(tensor)) {
    group.broadcast(span_of(tensor));
  } else {
    broadcast_staged(group, tensor);
  }
}

void all_to_all(ProcessGroup& group, const Tensor& send, const Tensor& receive) {
  const auto size = static_cast<std::size_t>(group.size());
  check_pair(send, receive, send.bytes() == receive.bytes() && send.numel() % group.size() == 0);
  if (send.bytes() == 0) return;
  note_change(receive);
  if (DeviceEngine* engine = engine_for(group, send); engine != nullptr) {
    group.begin_all_to_all(send.bytes());
    engine->all_to_all(send.address(), receive.address(), send.bytes() / size);
  } else if (is_exchanged_in_place(send)) {
    group.all_to_all(span_of(send), span_of(receive));
  } else {
    all_to_all_staged(group, send, receive);
  }
}

void all_gather(ProcessGroup& group, const Tensor& send, const Tensor& receive) {
  const auto size = static_cast<std::size_t>(group.size());
  check_pair(send, receive, send.bytes() * size == receive.bytes());
  if (send.bytes() == 0) return;
  note_change(receive);
  if (DeviceEngine* engine = engine_for(group, send); engine != nullptr) {
    group.begin_all_gather(send.bytes());
    engine->all_gather(send.address(), receive.address(), send.bytes());
  } else if (is_exchanged_in_place(receive)) {
    group.all_gather(span_of(send), span_of(receive));
  } else {
    all_gather_staged(group, send, receive);
  }
}

}  // namespace mezzo::distributed
