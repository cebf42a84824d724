#include "operator/cli/cluster_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "api/v1/names.h"
#include "base/printable.h"
#include "operator/cli/logs_command.h"
#include "operator/cli/status_command.h"

namespace lockstep::cli {
namespace {

constexpr int kExitCluster = 1;    // as with kubectl: the cluster refused, or could not be reached
constexpr int kExitJobFailed = 3;  // distinct from that and from wrong usage
constexpr Duration kLookEvery = std::chrono::seconds(2);

int Fail(int code, const absl::Status& status) {
  fmt::print(stderr, "lockstep: {}\n", Printable(std::string(status.message())));
  return code;
}

}  // namespace

int RunStatus(const StatusCommandOptions& options) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return Fail(api::kExitUsage, access.status());
  StatusOptions status{.job = options.job,
                       .namespace_name = options.all_namespaces ? "" : access->namespace_name,
                       .watch = options.watch.value_or(isatty(STDOUT_FILENO) != 0)};
  const SystemClock clock;
  const absl::Status shown = ShowStatus(*access->client, status, clock, stdout, [] {
    std::this_thread::sleep_for(kLookEvery);  // Ctrl-C ends the program at any time
    return true;
  });
  if (shown.ok()) return api::kExitDone;
  return Fail(absl::IsAborted(shown) ? kExitJobFailed : kExitCluster, shown);
}

int RunLogs(const LogsCommandOptions& options) {
  const auto access = ReachCluster(options.cluster);
  if (!access.ok()) return Fail(api::kExitUsage, access.status());
  const auto source = FindLog(*access->client, {.job = options.job,
                                                .namespace_name = access->namespace_name,
                                                .role = options.role,
                                                .index = options.index,
                                                .container = options.container});
  if (!source.ok()) return Fail(kExitCluster, source.status());
  const absl::Status read =
      access->client->ReadPodLog(source->pod,
                                 {.container = source->container,
                                  .follow = options.follow,
                                  .previous = options.previous,
                                  .tail_lines = options.tail},
                                 {}, [](const std::string& text) {
                                   std::fwrite(text.data(), 1, text.size(), stdout);
                                   std::fflush(stdout);
                                 });
  return read.ok() ? api::kExitDone : Fail(kExitCluster, read);
}

}  // namespace lockstep::cli
