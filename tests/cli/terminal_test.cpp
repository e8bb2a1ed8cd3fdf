// Tests the command's output on a terminal.
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class Terminal : public Command {
 protected:
  // The standard error of a successful command on a terminal with that many columns.
  static std::string shown_on(unsigned short columns, const std::string& arguments) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const std::string name = ptsname(master);  // NOLINT(concurrency-mt-unsafe)
    const int terminal = open(name.c_str(), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(master, TIOCSWINSZ, &size), 0);
    std::string shown;
    std::thread reader([&] {
      for (char c = 0; read(master, &c, 1) == 1;) shown += c;
    });
    const std::string line = concat(MEZZO_COMMAND, " ", arguments, " >/dev/null 2>", name);
    EXPECT_EQ(std::system(line.c_str()), 0);
    close(terminal);  // then nothing is left to read
    reader.join();
    close(master);
    return shown;
  }

  // The last drawn state of a run with one step.
  static std::string state_in(const std::string& shown) {
    const std::string clear = "\r\033[K";
    const std::size_t begin = shown.find(clear + "mlp  [") + clear.size();
    return shown.substr(begin, shown.find('\r', begin) - begin);
  }
};

TEST_F(Terminal, AStateIsNoWiderThanTheTerminal) {
  const std::string train = "train --model mlp --batch-size 500 --steps 1";
  EXPECT_THAT(state_in(shown_on(200, train)), EndsWith(" left"));
  const std::string narrow = state_in(shown_on(40, train));
  EXPECT_EQ(narrow.size(), 39U) << narrow;
  EXPECT_THAT(narrow, HasSubstr("] 1/1"));
  // A terminal that does not report its width has the usual 80 columns.
  EXPECT_THAT(state_in(shown_on(0, train + " --epochs 1")), HasSubstr("ms/step"));
  EXPECT_THAT(shown_on(40, train + " --quiet"), Not(HasSubstr("mlp  [")));
}

}  // namespace
}  // namespace mezzo::cli_tests
