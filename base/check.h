// Checks of invariants. User input must never reach a check: it is validated and reported as a
// Status.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace lockstep {

// Thrown by a failed check. Ends the program in main.cc, except that the operator's reconcile loop
// and informer give up only the object concerned, and work queued on a device turns it into a
// DeviceError.
class CheckFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void ThrowCheckFailure(const char* file, int line, const char* condition,
                                    const std::string& message);

}  // namespace lockstep

// Throws CheckFailure unless `condition` holds. The message names the file without its folders,
// which differ from clone to clone.
// LOCKSTEP_CHECK(condition, "conv2d: stride is {}, must be positive", stride)
#define LOCKSTEP_CHECK(condition, ...)                                   \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::lockstep::ThrowCheckFailure(__FILE_NAME__, __LINE__, #condition, \
                                    fmt::format(__VA_ARGS__));           \
  } while (false)
