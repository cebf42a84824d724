// lockstep-operator: watches TrainingJobs in a cluster and runs their pods.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "operator/server/flags.h"
#include "operator/server/run_operator.h"
#include "operator/server/stop_signals.h"

namespace lockstep::server {
namespace {

// Well below the 30 s that a kubelet grants a pod.
constexpr Duration kStopGrace = std::chrono::seconds(8);
// Bytes; blocks of at least this size are returned to the system as soon as they are freed.
constexpr int kMappedApart = 128 * 1024;

LogLevel LevelOf(const std::string& name) {
  static const std::map<std::string, LogLevel> kLevels = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warning", LogLevel::kWarning},
                                                          {"error", LogLevel::kError}};
  return kLevels.at(name);
}

int Main(int argc, char** argv) {
  // Otherwise each thread would get its own heap, which keeps freed memory.
  mallopt(M_ARENA_MAX, 2);
  // Large objects of tenants would end up there too: once a mapped block has been freed, glibc
  // raises this threshold by itself, up to 32 MiB.
  mallopt(M_MMAP_THRESHOLD, kMappedApart);
  Flags flags;
  if (const auto exit_code = ParseFlags(argc, argv, flags)) return *exit_code;
  SetLogLevel(LevelOf(flags.log_level));
  const SystemClock clock;
  const StopSignals signals(kStopGrace);
  return RunOperator(flags, clock, signals.token());
}

}  // namespace
}  // namespace lockstep::server

int main(int argc, char** argv) {
  lockstep::OpenStandardStreams();
  int exit_code = 1;
  try {
    exit_code = lockstep::server::Main(argc, argv);
  } catch (const std::exception& error) {
    lockstep::LogError("internal error", {{"error", error.what()}});
  }
  // Skips static destructors: threads of libraries may still use those objects.
  std::fflush(nullptr);
  std::_Exit(exit_code);
}
