// TensorBoard event files: scalars over steps, one new file per writer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// One thread at a time. Records reach the file when Flush() returns, or in the destructor.
class SummaryWriter {
 public:
  // Creates `directory` and a new events.out.tfevents.<time>.<host>.<pid>.<n> file in it. Errors
  // name the path and the system's reason.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& directory);
  virtual ~SummaryWriter() = default;
  virtual void Scalar(const std::string& tag, double value, std::int64_t step) = 0;
  // ResourceExhausted: the disk is full. After any error the file still ends with a whole record,
  // and the records since the last flush are dropped, so that training can go on.
  virtual absl::Status Flush() = 0;
};

}  // namespace lockstep::train
