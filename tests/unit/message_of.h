// Gets the message of an exception.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo {

// The message of the ErrorType that `action` throws; fails the test if it throws none.
template <class ErrorType = Error, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace mezzo
