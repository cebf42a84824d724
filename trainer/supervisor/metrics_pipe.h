// The way of a replica's numbers to its supervisor: EncodeMetrics lines, one per second at least,
// on an inherited pipe whose number is in LOCKSTEP_METRICS_FD.
#pragma once

#include <string>
#include <vector>

#include "trainer/identity/identity.h"

namespace lockstep::train {

inline constexpr char kEnvMetricsFd[] = "LOCKSTEP_METRICS_FD";

// The replica's end.
class MetricsPipeWriter {
 public:
  explicit MetricsPipeWriter(const GetEnv& env);
  // Adds the newline. Never blocks: a supervisor that does not read loses lines, training goes on.
  // A line may have up to 4095 bytes (what the kernel writes whole). Nothing happens without a
  // supervisor.
  void Write(const std::string& line);

 private:
  int fd_ = -1;
};

// The supervisor's end.
class MetricsPipeReader {
 public:
  explicit MetricsPipeReader(int fd) : fd_(fd) {}  // takes it; it must not block
  ~MetricsPipeReader();
  MetricsPipeReader(const MetricsPipeReader&) = delete;
  MetricsPipeReader& operator=(const MetricsPipeReader&) = delete;

  int fd() const { return fd_; }
  bool open() const { return open_; }  // false once the writer is gone
  std::vector<std::string> Lines();    // complete ones that have come since
 private:
  const int fd_;
  bool open_ = true;
  std::string partial_;
};

}  // namespace lockstep::train
