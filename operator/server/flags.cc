#include "operator/server/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <ranges>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/http_server.h"
#include "operator/controller/state/settings.h"

namespace lockstep::server {
namespace {

constexpr int kMaxThreads = 64;
constexpr double kMaxQps = 100'000;
constexpr int kMaxBurst = 100'000;
constexpr double kMaxSettling = 600;
// Each namespace takes a watch, with a thread and a connection, for every kind of object.
constexpr std::size_t kMaxNamespaces = 100;

std::string BindAddressFault(const std::string& address) {
  if (address == "0") return "";
  const absl::Status status = CheckBindAddress(address);
  return status.ok() ? "" : std::string(status.message()) + ", or 0 for none";
}

// Splits "a,b" into "a" and "b"; keeps empty names.
std::vector<std::string> NamesOf(const std::string& list) {
  std::vector<std::string> names;
  for (const auto name : std::views::split(list, ',')) names.emplace_back(name.begin(), name.end());
  return names;
}

constexpr std::size_t kMaxSubdomain = 253;

// True for what Kubernetes calls a DNS-1123 subdomain.
bool IsSubdomain(const std::string& name) {
  static const std::regex kSubdomain(
      "[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*");
  return name.size() <= kMaxSubdomain && std::regex_match(name, kSubdomain);
}

// Operators whose Leases have different names all lead, so a typo must not be accepted.
std::string LeaseNameFault(const std::string& name) {
  if (IsSubdomain(name)) return "";
  return fmt::format(
      "found \"{}\", expected the name of a Lease: 1 to {} lower-case letters, digits, '-' and '.'",
      name, kMaxSubdomain);
}

std::string DomainFault(const std::string& domain) {
  if (IsSubdomain(domain)) return "";
  return fmt::format(
      "found \"{}\", expected a DNS domain such as cluster.local: 1 to {} lower-case letters, "
      "digits, '-' and '.'; or 0 for none",
      domain, kMaxSubdomain);
}

std::string UrlFault(const std::string& url) {
  static const std::regex kUrl("https?://[A-Za-z0-9.:\\[\\]-]+(/[A-Za-z0-9/._~-]*)?");
  if (url.empty() || (std::regex_match(url, kUrl) && !url.ends_with('/'))) return "";
  return fmt::format("found \"{}\", expected a URL such as http://NAME.NAMESPACE.svc:8082", url);
}

// Returns the error, or "".
std::string ProgressFault(const Flags& flags) {
  const bool is_served = flags.progress_bind_address != "0";
  if (is_served == flags.progress_url.empty()) {
    return fmt::format(
        "--progress-url: found \"{}\" with --progress-bind-address={}, expected both or neither",
        flags.progress_url, flags.progress_bind_address);
  }
  if (!is_served || flags.job_tokens) return "";
  return "--progress-bind-address: found --job-tokens=false, expected tokens: reports are "
         "authenticated by them";
}

std::string NamespacesFault(const std::string& list) {
  static const std::regex kLabel("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?");
  for (const std::string& name : NamesOf(list)) {
    if (!std::regex_match(name, kLabel)) {
      return fmt::format(
          "found \"{}\", expected names of namespaces: each 1 to 63 lower-case letters, digits "
          "and '-'",
          list);
    }
  }
  return "";
}

// Replaces the values given, each a list of names, by the distinct names. An empty list stands for
// all namespaces; beside others it is an error, which must not widen what is served. Returns the
// error, or "".
std::string SettleNamespaces(std::vector<std::string>& namespaces) {
  const bool all = std::ranges::all_of(namespaces, &std::string::empty);
  std::set<std::string> names;
  for (const std::string& list : std::exchange(namespaces, {})) {
    if (all) continue;
    if (list.empty()) return "--namespace: found \"\" beside other names, expected names only";
    std::ranges::move(NamesOf(list), std::inserter(names, names.end()));
  }
  if (names.size() > kMaxNamespaces) {
    return fmt::format(
        "--namespace: found {} namespaces, expected at most {}: each has watches of its own",
        names.size(), kMaxNamespaces);
  }
  namespaces.assign(names.begin(), names.end());
  return "";
}

void AddServing(CLI::App& app, Flags& flags) {
  const auto add = [&app](const char* name, std::string& address, const std::string& what) {
    app.add_option(name, address, what + "; 0: nowhere")
        ->check(BindAddressFault)
        ->type_name("[HOST]:PORT");
  };
  add("--metrics-bind-address", flags.metrics_bind_address, "Where /metrics is served");
  add("--health-probe-bind-address", flags.health_probe_bind_address,
      "Where /healthz and /readyz are served");
  add("--progress-bind-address", flags.progress_bind_address,
      "Where programs of users' own images may report how far they are");
  app.add_option("--progress-url", flags.progress_url,
                 "The URL at which pods reach --progress-bind-address, such as that of a Service")
      ->check(UrlFault)
      ->type_name("URL");
}

void AddCluster(CLI::App& app, Flags& flags) {
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "How to reach the cluster [in a pod its service account, else $KUBECONFIG or "
                 "~/.kube/config]")
      ->type_name("FILE");
  app.add_option(
         "--namespace", flags.namespaces,
         "The namespaces to serve, separated by commas or each with a flag of its own [all]")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->check(NamespacesFault)
      ->type_name("NAME,...");
  app.add_flag("--leader-elect", flags.leader_elect,
               "Lead by a Lease, so that of several replicas one acts; on unless =false");
  app.add_option("--leader-election-namespace", flags.leader_election_namespace,
                 "Where the Lease is [the pod's own namespace, else the kubeconfig context's]");
  app.add_option("--leader-election-name", flags.leader_election_name,
                 "The Lease's name: replicas share it, other operators in the same namespace have "
                 "another one")
      ->check(LeaseNameFault)
      ->type_name("NAME");
  app.add_option("--kube-api-qps", flags.kube_api_qps,
                 "API requests per second that the operator allows itself, without watches and "
                 "the pages of a list after its first; 0: no limit, the API server's priority "
                 "and fairness decides")
      ->check(CLI::Range(0.0, kMaxQps))
      ->type_name("NUMBER");
  app.add_option("--kube-api-burst", flags.kube_api_burst,
                 "Requests that may go at once under --kube-api-qps; 0: one second's")
      ->check(CLI::Range(0, kMaxBurst))
      ->type_name("NUMBER");
}

void AddIsolation(CLI::App& app, Flags& flags) {
  app.add_flag(
      "--job-tokens", flags.job_tokens,
      "Give the pods of a job with a `training` section, or with `jobToken: Mounted`, a token "
      "that they prove to each other; on unless =false");
  app.add_option("--token-key-secret", flags.token_key_secret,
                 "The Secret of the operator's own namespace with the key that tokens are made of; "
                 "the operator creates it")
      ->check([](const std::string& name) {
        return name.empty() ? std::string("found \"\", expected the name of a Secret") : "";
      })
      ->type_name("NAME");
  app.add_flag("--network-policies", flags.network_policies,
               "Make a NetworkPolicy for each job with a `training` section, or with "
               "`networkPolicy: Isolated`; on unless =false");
  app.add_option("--scraper-namespace", flags.scraper_namespace,
                 "The namespace that these let in on the metrics port; 0: none")
      ->type_name("NAMESPACE");
}

void AddJobs(CLI::App& app, Flags& flags) {
  app.add_option("--controller-threads", flags.controller_threads,
                 "Jobs that are looked at at the same time")
      ->check(CLI::Range(1, kMaxThreads))
      ->type_name("NUMBER");
  app.add_option(
         "--gang-scheduler-name", flags.gang_scheduler_name,
         "Make PodGroups: volcano, or scheduler-plugins or the name its scheduler runs under")
      ->type_name("NAME");
  app.add_flag("--kueue", flags.kueue,
               "Jobs with the label kueue.x-k8s.io/queue-name wait for Kueue's admission");
  app.add_option("--cluster-domain", flags.cluster_domain,
                 "The cluster's DNS domain, in which pods of jobs with their own image find each "
                 "other by their bare names; 0: they do not [that of the operator's pod]")
      ->check(DomainFault)
      ->type_name("DOMAIN");
  app.add_flag("--kubeflow-labels", flags.kubeflow_labels,
               "Give pods the labels training.kubeflow.org/job-name, replica-type and "
               "replica-index too");
  app.add_flag("--watch-nodes", flags.watch_nodes,
               "Watch whether nodes are ready, which takes the right to list and watch them: a "
               "replica that its training group misses on a node that is not is replaced at once");
  app.add_flag("--poll-progress", flags.poll_progress,
               "Ask the leading pods of jobs with a `training` section how far they are, and whom "
               "they miss, and after training the Evaluators whether they work; on unless =false");
  app.add_option(
         "--settling-seconds", flags.settling_seconds,
         "How long a replica's failure may turn out to be the consequence of a peer's loss, "
         "before it is charged")
      ->check(CLI::Range(0.0, kMaxSettling))
      ->type_name("NUMBER");
  const auto check_image = [](const std::string& image) {
    return image.empty() ? std::string("found \"\", expected an image") : std::string();
  };
  app.add_option("--trainer-image", flags.trainer_image,
                 "The image of jobs with a `training` section that name none")
      ->check(check_image)
      ->type_name("IMAGE");
  app.add_option("--trainer-gpu-image", flags.trainer_gpu_image,
                 "The same for pods that ask for GPUs (`nvidia.com/gpu`), of the same version")
      ->check(check_image)
      ->type_name("IMAGE");
}

// CLI11 takes a flag without its value for true, and an option's next argument for the value. Such
// an argument is what a template leaves of a value that is not set. Returns the error, or "".
std::string EmptyValueFault(std::span<const char* const> args) {
  for (const std::string_view arg : args) {
    if (!arg.starts_with("--") || arg.find('=') + 1 != arg.size()) continue;
    return fmt::format("{}: found \"\", expected a value; without one, leave the flag out",
                       arg.substr(0, arg.size() - 1));
  }
  return "";
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, Flags& flags) {
  CLI::App app("Runs TrainingJobs on a Kubernetes cluster.", "lockstep-operator");
  app.set_version_flag("--version", "lockstep-operator " LOCKSTEP_VERSION);
  const controller::TrainerImages images = controller::DefaultTrainerImages();
  flags.trainer_image = images.cpu;
  flags.trainer_gpu_image = images.gpu;
  // The last value counts, as in other Kubernetes programs: overlays append their own.
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  AddCluster(app, flags);
  AddServing(app, flags);
  AddJobs(app, flags);
  AddIsolation(app, flags);
  app.add_option("--log-level", flags.log_level, "Records below it are dropped")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->type_name("debug|info|warning|error");
  app.footer("Logs are JSON, one object a line, on stderr.");
  try {
    if (const std::string fault = EmptyValueFault(std::span(argv, argc)); !fault.empty()) {
      throw CLI::ValidationError(fault);
    }
    app.parse(argc, argv);
    if (const std::string fault = SettleNamespaces(flags.namespaces); !fault.empty()) {
      throw CLI::ValidationError(fault);
    }
    if (const std::string fault = ProgressFault(flags); !fault.empty()) {
      throw CLI::ValidationError(fault);
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? api::kExitDone : api::kExitUsage;
  }
  return std::nullopt;
}

}  // namespace lockstep::server
