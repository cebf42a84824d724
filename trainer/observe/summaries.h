// Writes scalars over steps to TensorBoard event files, one new file per writer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// Not thread-safe. Records reach the file in Flush() or the destructor.
class SummaryWriter {
 public:
  // Creates `directory` if necessary and a new events.out.tfevents.<time>.<host>.<pid>.<n> file in
  // it. Errors name the path and the system's reason.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Open(const std::string& directory);
  virtual ~SummaryWriter() = default;
  // Call it before the first Scalar, and whenever a run goes on. `step`: the first one that is
  // written from now on. If files of the folder have it or later ones already, because the run has
  // gone back to a checkpoint, TensorBoard drops those.
  virtual void Begin(std::int64_t step) = 0;
  virtual void Scalar(const std::string& tag, double value, std::int64_t step) = 0;
  // Writes the buffered records. On failure, drops them and truncates the file to whole records, so
  // that the writer stays usable. ResourceExhausted: the disk is full.
  virtual absl::Status Flush() = 0;
};

// Returns the writer of a run, or null if `directory` is empty, or if there can be none. Logs the
// latter: summaries inform only, and the run goes on without them.
std::unique_ptr<SummaryWriter> OpenSummaries(const std::string& directory);

}  // namespace lockstep::train
