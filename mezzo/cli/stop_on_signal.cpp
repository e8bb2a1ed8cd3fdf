#include "mezzo/cli/stop_on_signal.h"

#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>

namespace mezzo::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

std::atomic<bool> may_ask{false};
std::atomic<bool> asked{false};

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void act_on(int signal, const sigset_t& blocked) {
  if (may_ask && !asked.exchange(true)) return;
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  std::raise(signal);
}

[[noreturn]] void act_on_all(const sigset_t& blocked) {
  for (;;) {
    int signal = 0;
    if (sigwait(&blocked, &signal) == 0) act_on(signal, blocked);
  }
}

}  // namespace

void wait_for_signals() {
  sigset_t waited_for;
  sigemptyset(&waited_for);
  bool any = false;
  for (const int signal : kSignals) {
    if (is_ignored(signal)) continue;
    sigaddset(&waited_for, signal);
    any = true;
  }
  if (!any) return;
  pthread_sigmask(SIG_BLOCK, &waited_for, nullptr);
  try {
    std::thread([waited_for] { act_on_all(waited_for); }).detach();
  } catch (const std::system_error&) {  // no more threads: signals end the process as usual
    pthread_sigmask(SIG_UNBLOCK, &waited_for, nullptr);
  }
}

StopOnSignal::StopOnSignal() {
  asked = false;
  may_ask = true;
}

StopOnSignal::~StopOnSignal() { may_ask = false; }

bool StopOnSignal::was_asked() { return asked; }

}  // namespace mezzo::cli
