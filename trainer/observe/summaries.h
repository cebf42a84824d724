// TensorBoard event files: TFRecord framing (length, masked CRC32C, data) around Event protobufs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// One thread at a time. Records reach the file when Flush() returns.
class SummaryWriter {
 public:
  // Creates `directory` and a new events.out.tfevents.<time>.<host> file in it.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& directory);
  virtual ~SummaryWriter() = default;
  virtual void Scalar(const std::string& tag, double value, std::int64_t step) = 0;
  virtual absl::Status Flush() = 0;
};

}  // namespace lockstep::train
