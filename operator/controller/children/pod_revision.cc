#include "operator/controller/children/pod_revision.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "api/v1/strategy_traits.h"
#include "base/digest.h"
#include "operator/controller/state/replicas.h"

namespace lockstep::controller {

namespace {

// Must change whenever the same spec gives another hash than before, as when its fields are written
// to JSON in another way. The first scheme had no prefix.
constexpr std::string_view kScheme = "3:";

// Returns true for an elastic job whose workers may come and go while the others run.
bool TakesWorkersIn(const api::TrainingJob& job) {
  const bool sparse = api::TraitsOf(job.spec).has_parameter_servers;
  return job.spec.elastic && (sparse || job.spec.restart_scope == api::RestartScope::kPod);
}

// Returns the replica counts of the job as if it had so many workers.
std::string CountsOf(const api::TrainingJob& job, int workers) {
  std::string shape;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (role == api::Role::kEvaluator) continue;  // no replica's peer
    shape += fmt::format("{}{}={}", shape.empty() ? "" : ",", api::RoleName(role),
                         role == api::Role::kWorker ? workers : spec.replicas);
  }
  return shape;
}

}  // namespace

std::string ClusterShape(const api::TrainingJob& job) {
  if (api::TraitsOf(job.spec).trains_alone) {
    return std::string(kIndependentShape);
  }
  if (TakesWorkersIn(job)) return std::string(kElasticShape);
  return CountsOf(job, ReplicaCount(job, api::Role::kWorker));
}

std::optional<int> WorkersOfShape(const api::TrainingJob& job, std::string_view shape) {
  constexpr std::string_view kMark = "worker=";
  const std::size_t at = shape.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  int workers = 0;
  const std::string_view rest = shape.substr(at + kMark.size());
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), workers);
  if (read.ec != std::errc() || workers < 1) return std::nullopt;
  return CountsOf(job, workers) == shape ? std::optional(workers) : std::nullopt;
}

std::optional<std::string> ElasticPeers(const api::TrainingJob& job) {
  if (ClusterShape(job) != kElasticShape) return std::nullopt;
  return fmt::format("chief={},ps={}", ReplicaCount(job, api::Role::kChief),
                     ReplicaCount(job, api::Role::kParameterServer));
}

std::string WriteElasticBounds(const api::ElasticSpec& bounds) {
  return fmt::format("{}:{}", bounds.min_replicas, bounds.max_replicas);
}

std::optional<api::ElasticSpec> ReadElasticBounds(std::string_view note) {
  api::ElasticSpec bounds;
  const char* const end = note.data() + note.size();
  const auto min = std::from_chars(note.data(), end, bounds.min_replicas);
  if (min.ec != std::errc() || min.ptr == end || *min.ptr != ':') return std::nullopt;
  const auto max = std::from_chars(min.ptr + 1, end, bounds.max_replicas);
  if (max.ec != std::errc() || max.ptr != end) return std::nullopt;
  return bounds;
}

std::string SpecHash(const api::TrainingJob& job, api::Role role) {
  std::uint64_t digest = kEmptyDigest;
  const auto spec = job.spec.replica_specs.find(role);
  if (spec != job.spec.replica_specs.end()) digest = Digest(*spec->second.tmpl.Text());
  const auto add = [&digest](const api::Json& json) {
    digest = Digest('\n' + json.dump(), digest);
  };
  if (job.spec.training) add(api::TrainingSpecToJson(*job.spec.training));
  if (job.spec.strategy) add(api::StrategySpecToJson(*job.spec.strategy));
  return fmt::format("{}{:016x}", kScheme, digest);
}

bool IsComparable(std::string_view hash) {
  return hash.starts_with(kScheme);
}

}  // namespace lockstep::controller
