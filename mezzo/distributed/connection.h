// Connections between processes over TCP, by which they meet and watch each other. They carry
// frames of a few bytes, never what a network is made of.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>

#include "mezzo/distributed/frame.h"

namespace mezzo::distributed {

// An open file of the system, closed at the end. Processes that this one starts do not inherit it.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int number) : number_(number) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle() { close(); }

  int number() const { return number_; }  // -1 if there is none
  bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

// Listens at a port of this host: for the whole network, or for this host alone if `address` is the
// host's name for itself (localhost, 127.0.0.1 or ::1). Port 0 stands for any free one. Throws
// DeviceError with the system's text.
Handle listen_at(std::string_view address, int port);
// The port of a listening socket.
int port_of(const Handle& listener);
// What has connected, if anything has.
Handle accept_from(const Handle& listener);
// Connects within this time. Returns a closed handle, and the reason in `reason`, if that fails.
Handle connect_to(const std::string& address, int port, std::chrono::milliseconds patience,
                  std::string& reason);

// The address of this end, or of the other one, in digits.
std::string own_address(const Handle& socket);
std::string other_address(const Handle& socket);
bool is_loopback(std::string_view address);

// Sends and receives frames. No function of it waits.
class Connection {
 public:
  Connection() = default;
  explicit Connection(Handle socket) : socket_(std::move(socket)) {}

  const Handle& socket() const { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  void close() { socket_.close(); }

  // Sends what the network takes now, and keeps the rest for flush().
  void send(FrameKind kind, std::string_view payload = {});
  bool has_unsent() const { return !unsent_.empty(); }
  void flush();
  // Tells the other end that nothing will follow.
  void finish_sending();

  // Appends what has arrived. Returns false once the other end has closed or the connection has
  // failed; frames that came before that are still appended. Throws Error if the bytes are no
  // frame.
  bool receive(std::vector<Frame>& frames);

 private:
  Handle socket_;
  std::string unsent_;
  FrameReader reader_;
};

// What to wait for: that one of the connections can be read, or written where something is unsent,
// or that `extra` can be read.
std::vector<pollfd> events_of(const std::vector<const Connection*>& connections,
                              const Handle& extra);
void wait_for_any(std::vector<pollfd> events, std::chrono::milliseconds patience);

}  // namespace mezzo::distributed
