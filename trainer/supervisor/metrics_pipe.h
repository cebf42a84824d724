// Carries a replica's metrics to its supervisor: EncodeMetrics lines, at least one per second, on
// an inherited pipe whose descriptor is in LOCKSTEP_METRICS_FD.
#pragma once

#include <string>
#include <vector>

#include "base/descriptor.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

inline constexpr char kEnvMetricsFd[] = "LOCKSTEP_METRICS_FD";

// The replica's end.
class MetricsPipeWriter {
 public:
  explicit MetricsPipeWriter(const GetEnv& env);
  // Writes the line and a newline. Never blocks: if the supervisor does not read, lines are lost.
  // A line must not exceed 4095 bytes: the kernel writes it atomically. No-op without a supervisor.
  void Write(const std::string& line);

 private:
  int fd_ = -1;
};

// The supervisor's end.
class MetricsPipeReader {
 public:
  explicit MetricsPipeReader(Descriptor end);  // makes it non-blocking

  int fd() const { return end_.fd(); }
  bool open() const { return open_; }  // false once the writer is gone
  std::vector<std::string> Lines();    // complete lines since the last call
 private:
  Descriptor end_;
  bool open_ = true;
  std::string partial_;
};

}  // namespace lockstep::train
