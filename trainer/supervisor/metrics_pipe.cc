#include "trainer/supervisor/metrics_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

namespace lockstep::train {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;  // a longer one is not from MetricsPipeWriter

}  // namespace

MetricsPipeWriter::MetricsPipeWriter(const GetEnv& env) {
  const auto text = env(kEnvMetricsFd);
  if (!text) return;
  fd_ = std::atoi(text->c_str());
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

void MetricsPipeWriter::Write(const std::string& line) {
  if (fd_ < 0) return;
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
}

MetricsPipeReader::MetricsPipeReader(Descriptor end) : end_(std::move(end)) {
  fcntl(end_.fd(), F_SETFL, O_NONBLOCK);
}

std::vector<std::string> MetricsPipeReader::Lines() {
  std::vector<std::string> lines;
  char buffer[4096];
  while (true) {
    const ssize_t count = read(end_.fd(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) open_ = false;
    if (count <= 0) break;
    partial_.append(buffer, static_cast<std::size_t>(count));
  }
  std::size_t start = 0;
  for (std::size_t end; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1) {
    lines.push_back(partial_.substr(start, end - start));
  }
  partial_.erase(0, start);
  if (partial_.size() > kLongestLine) partial_.clear();
  return lines;
}

}  // namespace lockstep::train
