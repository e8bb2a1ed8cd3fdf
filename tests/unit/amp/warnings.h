// The warnings that the library has given since the tests of this program began.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "mezzo/core/log.h"

namespace mezzo::amp {

// Collects the warnings of the whole program: each is given once, in whichever test comes first.
class Warnings : public testing::Environment {
 public:
  void SetUp() override {
    logging::set_sink([this](logging::Topic topic, std::string_view line) {
      if (topic == logging::Topic::kWarning) text_ += concat(line, "\n");
    });
  }
  void TearDown() override { logging::set_sink(nullptr); }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The test program owns it.
inline const Warnings& warnings =
    static_cast<Warnings&>(*testing::AddGlobalTestEnvironment(new Warnings));

}  // namespace mezzo::amp
