// Metrics of this process, from getrusage and /proc.
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "operator/metrics/scraped.h"

namespace lockstep::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

MetricFamily One(MetricType type, const char* name, const char* help, double value) {
  ClientMetric sample;
  (type == MetricType::Counter ? sample.counter.value : sample.gauge.value) = value;
  MetricFamily family{name, help, type, {}};
  family.metric.push_back(std::move(sample));
  return family;
}

}  // namespace

std::vector<MetricFamily> ProcessFamilies(Time began) {
  std::vector<MetricFamily> families;
  const std::chrono::duration<double> since_epoch = began.time_since_epoch();
  families.push_back(One(MetricType::Gauge, "process_start_time_seconds",
                         "When the process began, in seconds since 1970.", since_epoch.count()));
  families.push_back(One(MetricType::Counter, "process_cpu_seconds_total",
                         "User and system CPU time spent, in seconds.", CpuSeconds()));
  families.push_back(One(MetricType::Gauge, "process_resident_memory_bytes",
                         "Resident memory size in bytes.", ResidentBytes()));
  families.push_back(
      One(MetricType::Gauge, "process_open_fds", "Number of open file descriptors.", OpenFiles()));
  return families;
}

}  // namespace lockstep::metrics
