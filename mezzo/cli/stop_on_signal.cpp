#include "mezzo/cli/stop_on_signal.h"

#include <array>
#include <csignal>
#include <cstddef>

namespace mezzo::cli {
namespace {

volatile std::sig_atomic_t asked = 0;

constexpr std::array kSignals{SIGINT, SIGTERM};
std::array<struct sigaction, kSignals.size()> before{};

// Where signals are ignored, as in the background of a script, they stay ignored.
void set_back() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

void on_signal(int) {
  asked = 1;
  set_back();
}

}  // namespace

StopOnSignal::StopOnSignal() {
  asked = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopOnSignal::~StopOnSignal() { set_back(); }

bool StopOnSignal::was_asked() { return asked != 0; }

}  // namespace mezzo::cli
