// Child processes, for limits, rights and deaths that cannot be undone.
#pragma once

#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

#include "mezzo/core/error.h"

namespace mezzo::io {

// Writes all of `text`, as far as the other end accepts it.
inline bool send(int pipe_end, std::string_view text) {
  return ::write(pipe_end, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

inline std::string receive(int pipe_end) {
  std::string text;
  char buffer[256];
  for (ssize_t got = 0; (got = ::read(pipe_end, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Runs `action` in a child process. Returns the message of the FileError that it throws; empty if
// it throws none or the process dies.
template <class Action>
std::string message_in_child(const Action& action) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string message;
    try {
      action();
    } catch (const FileError& error) {
      message = error.what();
    }
    _exit(send(pipe_ends[1], message) ? 0 : 1);
  }
  close(pipe_ends[1]);
  const std::string message = receive(pipe_ends[0]);
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  return message;
}

// For a child process: root may write everywhere, so it becomes nobody.
inline void become_nobody() {
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
}

}  // namespace mezzo::io
