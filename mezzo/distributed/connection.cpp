#include "mezzo/distributed/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mezzo/core/error.h"

namespace mezzo::distributed {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Empty, with the reason, if there are none.
Addresses addresses_of(const char* host, int port, int flags, std::string& reason) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    reason = code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code);
    found = nullptr;
  }
  return {found, &freeaddrinfo};
}

Handle make_socket(const addrinfo& address) {
  return Handle(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                       address.ai_protocol));
}

void set_option(const Handle& socket, int level, int option, int value) {
  setsockopt(socket.number(), level, option, &value, sizeof(value));
}

// Whether a connection that is being made is there in time.
bool is_connected(const Handle& socket, std::chrono::milliseconds patience, std::string& reason) {
  pollfd wanted = {.fd = socket.number(), .events = POLLOUT, .revents = 0};
  if (poll(&wanted, 1, static_cast<int>(patience.count())) <= 0) {
    reason = "no answer";
    return false;
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) reason = std::strerror(error);
  return error == 0;
}

Handle listen_on(const addrinfo& address) {
  Handle listener = make_socket(address);
  if (!listener.is_open()) return listener;
  set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(listener.number(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(listener.number(), SOMAXCONN) != 0) {
    const int error = errno;
    listener.close();
    errno = error;
  }
  return listener;
}

std::string in_digits(const sockaddr_storage& address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text.data(), text.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  // An address of IPv4 on a socket of IPv6.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view digits = text.data();
  return std::string(digits.starts_with(kMapped) ? digits.substr(kMapped.size()) : digits);
}

}  // namespace

Handle::Handle(Handle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  close();
  number_ = std::exchange(other.number_, -1);
  return *this;
}

void Handle::close() {
  if (is_open()) ::close(std::exchange(number_, -1));
}

Handle listen_at(std::string_view address, int port) {
  const bool is_for_itself = address == "localhost" || is_loopback(address);
  const std::string host(address);
  std::string reason;
  const Addresses found =
      addresses_of(is_for_itself ? host.c_str() : nullptr, port, AI_PASSIVE, reason);
  // IPv6 first, for such a socket takes both; not every host has it.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
      if (each->ai_family != family) continue;
      Handle listener = listen_on(*each);
      if (listener.is_open()) return listener;
      reason = std::strerror(errno);
      if (errno == EADDRINUSE) break;
    }
  }
  fail<DeviceError>("distributed", "process 0 cannot listen at port ", port, ": ", reason,
                    ". Set MASTER_PORT to a port that is free on its host, in every process");
}

int port_of(const Handle& listener) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Handle accept_from(const Handle& listener) {
  Handle socket(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

Handle connect_to(const std::string& address, int port, std::chrono::milliseconds patience,
                  std::string& reason) {
  const Addresses found = addresses_of(address.c_str(), port, 0, reason);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    Handle socket = make_socket(*each);
    if (socket.is_open() && connect(socket.number(), each->ai_addr, each->ai_addrlen) != 0 &&
        errno != EINPROGRESS) {
      reason = std::strerror(errno);
      continue;
    }
    if (!socket.is_open() || !is_connected(socket, patience, reason)) continue;
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    return socket;
  }
  return {};
}

std::string own_address(const Handle& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &length);
  return in_digits(address, length);
}

std::string other_address(const Handle& socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  getpeername(socket.number(), reinterpret_cast<sockaddr*>(&address), &length);
  return in_digits(address, length);
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

void Connection::send(FrameKind kind, std::string_view payload) {
  unsent_ += encoded(kind, payload);
  flush();
}

void Connection::flush() {
  while (is_open() && !unsent_.empty()) {
    const ssize_t sent =
        ::send(socket_.number(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    // What has failed is seen by receive(), after what the other end may have said before.
    if (sent < 0) return unsent_.clear();
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void Connection::finish_sending() {
  if (is_open()) shutdown(socket_.number(), SHUT_WR);
}

bool Connection::receive(std::vector<Frame>& frames) {
  std::array<char, 65536> buffer;
  // What is sent without end must not keep the others waiting.
  for (int reads = 0; is_open() && reads < 32; ++reads) {
    const ssize_t count = recv(socket_.number(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    reader_.add({buffer.data(), static_cast<std::size_t>(count)});
    while (auto frame = reader_.next()) frames.push_back(std::move(*frame));
  }
  return is_open();
}

std::vector<pollfd> events_of(const std::vector<const Connection*>& connections,
                              const Handle& extra) {
  std::vector<pollfd> events;
  events.reserve(connections.size() + 1);
  // poll() leaves out those without a number.
  events.push_back({.fd = extra.number(), .events = POLLIN, .revents = 0});
  for (const Connection* each : connections) {
    const int wanted = each->has_unsent() ? POLLIN | POLLOUT : POLLIN;
    events.push_back(
        {.fd = each->socket().number(), .events = static_cast<short>(wanted), .revents = 0});
  }
  return events;
}

void wait_for_any(std::vector<pollfd> events, std::chrono::milliseconds patience) {
  const auto longest = std::max(patience, std::chrono::milliseconds(0));
  poll(events.data(), events.size(), static_cast<int>(longest.count()));
}

}  // namespace mezzo::distributed
