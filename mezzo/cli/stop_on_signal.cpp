#include "mezzo/cli/stop_on_signal.h"

#include <csignal>

namespace mezzo::cli {
namespace {

volatile std::sig_atomic_t asked = 0;

void set_handlers(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
}

void on_signal(int) {
  asked = 1;
  set_handlers(SIG_DFL);
}

}  // namespace

StopOnSignal::StopOnSignal() {
  asked = 0;
  set_handlers(on_signal);
}

StopOnSignal::~StopOnSignal() { set_handlers(SIG_DFL); }

bool StopOnSignal::was_asked() { return asked != 0; }

}  // namespace mezzo::cli
