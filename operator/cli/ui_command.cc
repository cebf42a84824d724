#include "operator/cli/ui_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/http_server.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/status.h"
#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/fail.h"
#include "operator/cli/ui/answers.h"
#include "operator/cli/ui/board.h"
#include "operator/cli/ui/cluster_source.h"
#include "operator/cli/ui/local_source.h"

namespace lockstep::cli {
namespace {

// A page says soon that a cluster is silent.
constexpr Duration kRequestTime = std::chrono::seconds(5);
constexpr int kHighestPort = 65535;

ExitCode Serve(const UiOptions& options, JobSource& source) {
  const std::string token = NewToken();
  Board board(source);
  const Answers answers(board, token);
  // IPv4's loopback address alone: whoever is elsewhere takes a tunnel, which checks who they are.
  const auto server = HttpServer::StartWith(fmt::format("127.0.0.1:{}", options.port),
                                            [&](const HttpGet& get) { return answers.To(get); });
  if (!server.ok()) return FailOnCluster(kExitUsage, server.status());
  const std::string url = fmt::format("http://127.0.0.1:{}/#{}", (*server)->port(), token);
  if (options.output == "json") {
    fmt::print("{}\n", AsciiJson({{"url", url}, {"port", (*server)->port()}}));
  } else {
    fmt::print("{}: {}\n", Printable(source.Name()), url);
    fmt::print(stderr, "The URL holds a secret: whoever has it sees these jobs. Ctrl-C ends it.\n");
  }
  std::fflush(stdout);
  for (;;) ::pause();  // signals end the program at any time: it has nothing to save
}

ExitCode ServeRuns(const UiOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.work_dir, error)) {
    return FailOnCluster(
        kExitUsage, absl::NotFoundError(
                        fmt::format("--work-dir {}: there is no such folder", options.work_dir)));
  }
  std::string folder = options.work_dir;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return Serve(options, *MakeLocalSource(folder));
}

}  // namespace

CLI::App* AddUiCommand(CLI::App& app, UiOptions& options) {
  CLI::App* command = app.add_subcommand(
      "ui", "Show TrainingJobs in a browser: progress, curves, replicas, logs, events");
  CLI::Option* work_dir =
      command
          ->add_option("--work-dir", options.work_dir,
                       "Show the `lockstep run` that uses or has used this folder on this machine, "
                       "or those of the folders in it, and no cluster's jobs")
          ->type_name(kFolderType);
  command
      ->add_option("--port", options.port,
                   "The port of 127.0.0.1 where the page is served [one that is free]")
      ->check(CLI::Range(0, kHighestPort))
      ->type_name("PORT");
  AddOutputOption(*command, options.output, {"text", "json"},
                  "text, or json: an object with the URL");
  command->add_flag("-A,--all-namespaces", options.all_namespaces,
                    "Show the jobs of all namespaces");
  AddClusterOptions(*command, options.cluster);
  for (const char* name : {"--all-namespaces", "--kubeconfig", "--context", "--namespace"}) {
    work_dir->excludes(command->get_option(name));
  }
  command->footer("Ctrl-C ends it.");
  return command;
}

ExitCode RunUi(const UiOptions& options) {
  if (!options.work_dir.empty()) return ServeRuns(options);
  const auto access = ReachCluster(options.cluster, kRequestTime);
  if (!access.ok()) return FailOnCluster(kExitUsage, access.status());
  const auto source =
      MakeClusterSource(*access->client, options.all_namespaces ? "" : access->namespace_name);
  return Serve(options, *source);
}

}  // namespace lockstep::cli
