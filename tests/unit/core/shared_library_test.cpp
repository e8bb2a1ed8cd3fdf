// Libraries that are opened while the program runs, and what is said of those that are not there.
#include "mezzo/core/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

SharedLibrary::Options missing() {
  return {
      .op = "cuda", .title = "libThere", .name = "libthere_is_none.so.7", .advice = "Install it"};
}

// The C library, whose name is the same on every Linux with glibc.
SharedLibrary::Options mathematics() {
  return {.op = "cuda", .title = "the mathematics", .name = "libm.so.6", .advice = "Install it"};
}

TEST(SharedLibrary, OneThatIsMissingIsNamedWithWhatToDo) {
  EXPECT_THAT(message_of<DeviceError>([] { SharedLibrary{missing()}; }),
              AllOf(StartsWith("[cuda] libThere could not be loaded: libthere_is_none.so.7: "),
                    testing::EndsWith(". Install it")));
}

TEST(SharedLibrary, TheTextIsThatOfTheNameAlsoIfAFolderIsTried) {
  SharedLibrary::Options options = missing();
  options.folder = "/no/such/folder";
  EXPECT_THAT(message_of<DeviceError>([&] { SharedLibrary{options}; }),
              AllOf(HasSubstr("loaded: libthere_is_none.so.7: "), testing::Not(HasSubstr("/no/"))));
}

TEST(SharedLibrary, FunctionsAreCalled) {
  const SharedLibrary library(mathematics());
  const auto floor_of = library.find<double (*)(double)>("floor");
  EXPECT_EQ(floor_of(2.5), 2.0);
}

TEST(SharedLibrary, AFunctionThatIsMissingIsNamed) {
  const SharedLibrary library(mathematics());
  EXPECT_EQ(message_of<DeviceError>([&] { library.address_of("square_of_the_circle"); }),
            "[cuda] the mathematics is of another version: libm.so.6 has no square_of_the_circle. "
            "Install it");
}

}  // namespace
}  // namespace mezzo
