#include "trainer/train/parameter_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/pause.h"
#include "base/status.h"
#include "base/stop_signal.h"
#include "trainer/optim/optimizer_rule.h"
#include "trainer/train/batch_gradient.h"

namespace lockstep::train {
namespace {

constexpr Duration kBetweenAttempts = std::chrono::milliseconds(50);
// A load that is refused for lack of memory was sent whole, and is logged by the server.
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr auto kLogEvery = std::chrono::seconds(10);
constexpr auto kBetweenLooksAtTasks = std::chrono::seconds(1);
constexpr Duration kShortPatience = std::chrono::seconds(1);  // with servers, in an evaluation

std::vector<FlatRange> TensorsOf(Model& model) {
  std::vector<FlatRange> tensors;
  for (const TensorSlot& slot : model.parameter_slots()) {
    tensors.push_back({slot.offset, slot.offset + slot.size});
  }
  // The flat range may end beyond the last tensor, for its alignment.
  if (!tensors.empty()) tensors.back().end = std::ssize(model.parameters());
  return tensors;
}

Caller WithFingerprint(Caller caller, Session& session) {
  caller.who.set_fingerprint(session.Fingerprint());
  return caller;
}

}  // namespace

ShardGroupOptions ShardOptions(const ParameterClientOptions& options, Session& session) {
  Model& model = session.model();
  ShardGroupOptions shards{
      .servers = options.servers,
      .caller = options.caller,
      .plan =
          PlanShards(TensorsOf(model), static_cast<int>(options.servers.size()), options.placement),
      .parameters = std::ssize(model.parameters()),
      .states = std::ssize(model.states()),
      .gradients = options.shares_memory ? session.buffer().name() : "",
      .gradient_floats = static_cast<std::int64_t>(session.buffer().size())};
  shards.caller.who.set_fingerprint(session.Fingerprint());
  return shards;
}

ParameterClientOptions ParameterClientOptionsFor(const Identity& identity) {
  ParameterClientOptions options;
  options.servers = identity.cluster.ps;
  proto::Introduction& who = options.caller.who;
  who.set_job(ServerGroupHash(identity));
  who.set_role(std::string(api::RoleName(identity.role)));
  who.set_index(identity.index);
  who.set_local_rank(identity.local_rank);
  who.set_pod_started(identity.incarnation.pod_started);
  who.set_process_number(identity.incarnation.process_number);
  options.caller.token = identity.token;
  options.placement =
      identity.strategy.parameter_server.value_or(api::ParameterServerSpec{}).placement;
  options.shares_memory = identity.strategy.communication != api::Communication::kRing;
  options.longest_outage = std::chrono::seconds(identity.training.rendezvous_timeout_seconds);
  options.successors_come = identity.operated;
  options.stop_requested = &StopSignalled;
  options.leader_host = identity.LeaderHost();
  return options;
}

ParameterClient::ParameterClient(ParameterClientOptions options, Session& session,
                                 const Clock& clock, PhaseClock& phases)
    : options_(std::move(options)),
      session_(session),
      clock_(clock),
      phases_(phases),
      shards_(ShardOptions(options_, session)),
      tasks_(options_.servers.front(), WithFingerprint(options_.caller, session)),
      addresses_(options_.has_address, options_.between_lookups),
      leader_address_(options_.has_address, options_.between_lookups) {
  for (const std::string& server : options_.servers) {
    hosts_.insert(server.substr(0, server.rfind(':')));
  }
  if (!options_.leader_host.empty()) hosts_.insert(options_.leader_host);
}

// A server's pod is being replaced; unless all who have a part of the run were there and are gone.
// Then the run is over most likely, and there is nothing left for which to wait.
bool ParameterClient::AServerIsYetToCome() const {
  std::set<std::string> away = addresses_.WithoutAddress();
  if (has_been_answered_ && away.size() == hosts_.size()) return false;
  away.erase(options_.leader_host);
  return !away.empty();
}

// Returns true once in a while.
bool ParameterClient::IsTimeToLog() {
  const SteadyTime now = clock_.SteadyNow();
  if (now < next_log_) return false;
  next_log_ = now + kLogEvery;
  return true;
}

// Ok while the outage may go on.
absl::Status ParameterClient::CheckOutage(const absl::Status& broken) {
  const SteadyTime now = clock_.SteadyNow();
  if (!outage_began_) {
    outage_began_ = now;
    next_log_ = now + std::chrono::seconds(1);
    if (options_.successors_come) addresses_.Watch(hosts_);
  }
  if (AServerIsYetToCome()) outage_began_ = now;
  if (IsTimeToLog()) {
    LogInfo("waiting for a parameter server", {{"reason", std::string(broken.message())}});
  }
  if (options_.stop_requested()) return absl::CancelledError(broken.message());
  if (now - *outage_began_ < options_.longest_outage) return absl::OkStatus();
  if (absl::IsResourceExhausted(broken)) return broken;  // it has answered
  return absl::DeadlineExceededError(
      fmt::format("{}; expected it to answer within {:.3g} s", std::string(broken.message()),
                  std::chrono::duration<double>(options_.longest_outage).count()));
}

absl::Status ParameterClient::Persist(const std::function<absl::Status()>& call) {
  Duration pause = kBetweenAttempts;
  std::optional<PhaseTimer> outage;
  for (;;) {
    absl::Status status = call();
    // A name or an address may lead to a pod of another run while the right one is being replaced.
    const bool is_another = absl::IsPermissionDenied(status);
    if (is_another && !options_.successors_come)
      status = absl::InvalidArgumentError(status.message());
    const bool lacks_memory = absl::IsResourceExhausted(status);
    const bool is_away = absl::IsUnavailable(status) || absl::IsPermissionDenied(status);
    if (!is_away) has_been_answered_ = true;
    if (!is_away && !lacks_memory) {
      if (outage_began_) addresses_.Watch({});
      outage_began_.reset();
      return status;
    }
    if (!outage) outage.emplace(phases_, Phase::kRendezvous);
    LOCKSTEP_RETURN_IF_ERROR(CheckOutage(status));
    if (lacks_memory) {
      Pause(clock_, pause, options_.stop_requested);
      pause = std::min(2 * pause, kLongestPause);
    } else {
      std::this_thread::sleep_for(kBetweenAttempts);
    }
  }
}

// Server 0 knows who is here from its connections, and the workers give up the leading process if
// it is not. But that process may work for minutes between two calls.
void ParameterClient::StayConnected() {
  connecting_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;  // nothing but the end is waited for
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    const auto is_over = [&] { return stop.stop_requested(); };
    while (!stopped.wait_for(lock, stop, kBetweenLooksAtTasks, is_over)) {
      const std::unique_lock tasks(tasks_mutex_, std::try_to_lock);
      if (tasks) tasks_.Connect(stop).IgnoreError();  // the next call says what is wrong
    }
  });
}

absl::StatusOr<proto::TaskReply> ParameterClient::Next(const proto::Next& next) {
  proto::TaskReply reply;
  absl::Status ended = Persist([&]() -> absl::Status {
    const std::lock_guard lock(tasks_mutex_);
    LOCKSTEP_RETURN_IF_ERROR(tasks_.Connect());
    LOCKSTEP_ASSIGN_OR_RETURN(reply, tasks_.Next(next));
    return absl::OkStatus();
  });
  if (!ended.ok()) return ended;
  if (!reply.has_wait()) wait_began_.reset();
  return reply;
}

FlatValues ParameterClient::ValuesOf(bool slots) {
  Model& model = session_.model();
  FlatValues values{.parameters = model.parameters(), .states = model.states(), .slots = {}};
  for (int i = 0; slots && i < session_.optimizer().slots(); ++i) {
    values.slots.push_back(session_.optimizer().slot(i));
  }
  return values;
}

absl::StatusOr<std::vector<std::int64_t>> ParameterClient::Pull(const ShardGroup::Request& request,
                                                                bool slots) {
  std::vector<std::int64_t> versions;
  absl::Status ended = Persist([&]() -> absl::Status {
    LOCKSTEP_RETURN_IF_ERROR(shards_.Connect());
    LOCKSTEP_ASSIGN_OR_RETURN(versions, shards_.Pull(request, ValuesOf(slots), slots));
    return absl::OkStatus();
  });
  if (!ended.ok()) return ended;
  return versions;
}

absl::StatusOr<ShardGroup::PushResult> ParameterClient::Push(ShardGroup::Gradient gradient) {
  gradient.gradients = session_.model().gradients();
  gradient.states = {session_.buffer().data() + session_.model().gradients().size(),
                     session_.model().states().size()};
  gradient.in_buffer = true;
  ShardGroup::PushResult result;
  absl::Status ended = Persist([&]() -> absl::Status {
    LOCKSTEP_RETURN_IF_ERROR(shards_.Connect());
    LOCKSTEP_ASSIGN_OR_RETURN(result, shards_.Push(gradient));
    return absl::OkStatus();
  });
  if (!ended.ok()) return ended;
  return result;
}

absl::Status ParameterClient::Load(std::uint64_t fence, int parts, const RunState& state) {
  ShardGroup::Content content{.fence = fence,
                              .parts = parts,
                              .step = state.step,
                              .skipped_steps = state.StepsWithoutUpdate(),
                              .total_steps = session_.total_steps(),
                              .segments = {},
                              .kept_states = {},
                              .values = ValuesOf(/*slots=*/true)};
  LOCKSTEP_ASSIGN_OR_RETURN(content.segments,
                            OptimizerSegments(session_.training().optimizer, session_.model()));
  if (parts == 0) content.kept_states = KeptStatesOf(session_);
  return Persist([&]() -> absl::Status {
    LOCKSTEP_RETURN_IF_ERROR(shards_.Connect());
    return shards_.Load(content);
  });
}

absl::Status ParameterClient::Check(std::uint64_t fence) {
  return Persist([&]() -> absl::Status {
    absl::Status met = shards_.Connect();
    LOCKSTEP_RETURN_IF_ERROR(shards_.Check(fence));  // of those that are there
    return shards_.IsStopping() ? absl::OkStatus() : met;
  });
}

void ParameterClient::CheckConnected(std::uint64_t fence) {
  absl::Status checked = shards_.Connect(kShortPatience);
  checked.Update(shards_.Check(fence));
  if (checked.ok() || !IsTimeToLog()) return;
  LogInfo("a parameter server does not answer, or has lost the values",
          {{"reason", std::string(checked.message())}});
}

absl::StatusOr<bool> ParameterClient::ReleaseServers() {
  absl::StatusOr<bool> released = shards_.Saved();
  if (released.ok() || absl::IsAborted(released.status())) return released;
  LogInfo("a parameter server did not hear that its values are saved",
          {{"reason", std::string(released.status().message())}});
  return true;
}

void ParameterClient::Finish(const proto::Next& next) {
  absl::Status told;
  {
    const std::lock_guard lock(tasks_mutex_);
    told = tasks_.Connect();
    if (told.ok()) told = tasks_.Next(next).status();
  }
  told.Update(shards_.Connect());
  told.Update(shards_.Finish());
  if (told.ok()) return;
  LogWarning("a parameter server did not hear that the run is over",
             {{"reason", std::string(told.message())}});
}

absl::Status ParameterClient::NoteWait(const std::string& reason, const std::string& missing) {
  const SteadyTime now = clock_.SteadyNow();
  if (!wait_began_) {
    wait_began_ = now;
    next_log_ = now + kLogEvery;
  }
  const bool may_come = !missing.empty() && options_.successors_come;
  leader_address_.Watch(may_come ? std::set{options_.leader_host} : std::set<std::string>{});
  const bool is_yet_to_come = !leader_address_.WithoutAddress().empty();
  if (missing.empty() || is_yet_to_come) wait_began_ = now;
  if (IsTimeToLog()) LogInfo(fmt::format("waiting for {}", reason));
  if (now - *wait_began_ < options_.longest_outage) return absl::OkStatus();
  return absl::DeadlineExceededError(
      fmt::format("{} has not come back within {:.3g} s", missing,
                  std::chrono::duration<double>(options_.longest_outage).count()));
}

}  // namespace lockstep::train
