#include "operator/progress/progress_poller.h"

#include <fmt/format.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "api/proto/protobuf_log.h"
#include "api/proto/trainer_status.grpc.pb.h"
#include "api/v1/progress_json.h"
#include "base/hmac.h"
#include "base/log.h"
#include "operator/progress/replica_names.h"
#include "operator/progress/status_answer.h"
#include "operator/progress/step_watch.h"

namespace lockstep::progress {
namespace {

// Bytes of an answer, which has a few hundred and up to 512 short names.
constexpr int kLongestAnswer = 16 * 1024;
// Bytes that a pod may send per question: an answer with framing, headers and pings.
constexpr std::size_t kMostBytes = std::size_t{2} * kLongestAnswer;
constexpr auto kHungIsKnownFor = std::chrono::minutes(1);
constexpr std::size_t kAnswerNonceBytes = 32;
// After this many unanswered questions in a row, a pod that did answer before is silent.
constexpr int kSilence = 2;
constexpr int kMostWorkers = 1'000'000;  // that are believed

// Uses an existing connection: gRPC does not reconnect when it breaks.
std::shared_ptr<grpc::Channel> MakeChannel(Descriptor socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kLongestAnswer);
  // gRPC would decompress 16 KiB to 15 MB before it checks the size.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  return grpc::CreateCustomInsecureChannelFromFd("trainer", socket.Release(), arguments);
}

}  // namespace

struct ProgressPoller::Link {
  explicit Link(PodConnections::Opened opened)
      : id(opened.id), stub(proto::TrainerStatus::NewStub(MakeChannel(std::move(opened.socket)))) {}

  const PodConnections::Id id;
  const std::unique_ptr<proto::TrainerStatus::Stub> stub;
};

struct ProgressPoller::Peer {
  Peer(controller::ProgressTarget where, const Known& before)
      : target(std::move(where)), known(before) {}

  const controller::ProgressTarget target;
  // Guarded by the poller's mutex_.
  std::shared_ptr<Link> link;  // null before the first question and after a failed one
  Known known;
  std::vector<std::string> lost;
  std::vector<controller::Straggler> stragglers;
  bool has_answered = false;
  int unanswered = 0;  // consecutive questions
  std::optional<GroupState> group;
  std::optional<SteadyTime> saves_since;  // when an answer first told of rank 0's present save
  StepWatch step;                         // of rank 0
  std::int64_t evaluated_batches = 0;     // as this pod told last
  std::optional<int> workers;             // likewise
  int told_workers = 0;                   // as TellWorkers has it
  std::string nonce;                      // of the last answer, for the next proof
  SteadyTime next_call;
  bool asked = false;  // a question is in flight
};

struct ProgressPoller::Call {
  std::shared_ptr<Peer> peer;
  grpc::ClientContext context;
  api::JobToken token;  // the job's; absent if it is not known
  proto::GetStatusRequest request;
  proto::GetStatusResponse response;
};

ProgressPoller::ProgressPoller(PollerOptions options)
    : options_(std::move(options)), connections_(kMostBytes) {
  proto::RouteProtobufLog();
  thread_ = std::jthread([this](std::stop_token stop) { Loop(std::move(stop)); });
}

ProgressPoller::~ProgressPoller() {
  thread_.request_stop();
  thread_.join();
  std::unique_lock lock(mutex_);
  for (const auto& [call, owned] : calls_) call->context.TryCancel();
  changed_.wait(lock, [this] { return calls_.empty(); });
}

std::optional<api::Progress> ProgressPoller::Latest(const controller::ProgressTarget& target) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Peer>& peer = peers_[target.job_uid];
  if (peer == nullptr || peer->target != target) {
    // The predecessor's progress stands until the new leader reports.
    Known known;
    if (const auto paused = paused_.extract(target.job_uid)) known = paused.mapped();
    if (peer != nullptr) {
      known = peer->known;
      retired_.push_back(std::move(peer));
    }
    if (std::exchange(known.attempt, target.attempt) != target.attempt) {
      known.proves = false;
      known.resizes.reset();
    }
    if (!target.is_evaluator) known.hung.clear();
    peer = std::make_shared<Peer>(target, known);
    must_look_ = true;  // ask a new peer at once
    changed_.notify_all();
  }
  return peer->known.latest;
}

std::optional<api::Progress> ProgressPoller::Pause(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(job_uid); found != peers_.end()) {
    paused_[job_uid] = found->second->known;
    retired_.push_back(std::move(found->second));
    peers_.erase(found);
  }
  const auto said = paused_.find(job_uid);
  return said == paused_.end() ? std::nullopt : said->second.latest;
}

controller::GroupReport ProgressPoller::Group(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = std::chrono::steady_clock::now();
  const auto since = [now](const Known& known) -> std::optional<Duration> {
    if (!known.evaluated_at) return std::nullopt;
    return now - *known.evaluated_at;
  };
  const auto hung = [now](const Known& known) {
    return now - known.hung_at > kHungIsKnownFor ? std::vector<controller::Straggler>()
                                                 : known.hung;
  };
  const auto found = peers_.find(job_uid);
  if (found == peers_.end()) {
    const auto paused = paused_.find(job_uid);
    if (paused == paused_.end()) return {};
    return {.hung = hung(paused->second),
            .since_evaluation = since(paused->second),
            .resizes = paused->second.resizes};
  }
  const Peer& peer = *found->second;
  if (peer.target.is_evaluator) {
    return {.hung = hung(peer.known),
            .since_evaluation = since(peer.known),
            .resizes = peer.known.resizes};
  }
  std::vector<std::string> awaited;
  std::optional<bool> misses_checkpoints;
  bool saves = false;
  if (peer.group) {
    std::ranges::transform(peer.group->missing, std::back_inserter(awaited), PodOf);
    misses_checkpoints = peer.group->evaluator_misses_checkpoints;
    saves = peer.saves_since && now - *peer.saves_since < options_.longest_save;
  }
  return {.missing = peer.lost,
          .awaited = std::move(awaited),
          .leader_is_silent = peer.has_answered && peer.unanswered >= kSilence,
          .evaluator_misses_checkpoints = misses_checkpoints,
          .in_step_for = peer.group ? peer.step.InStepFor() : std::nullopt,
          .stragglers = peer.stragglers,
          .hung = hung(peer.known),
          .since_evaluation = since(peer.known),
          .workers = peer.workers,
          .resizes = peer.known.resizes,
          .answers = peer.group.has_value(),
          .saves = saves,
          .keeps_workers = peer.group && peer.group->keeps_workers};
}

void ProgressPoller::TellWorkers(const std::string& job_uid, int workers) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(job_uid);
  if (found == peers_.end() || found->second->target.is_evaluator) return;
  Peer& peer = *found->second;
  if (std::exchange(peer.told_workers, workers) == workers) return;
  peer.next_call = SteadyTime();
  must_look_ = true;
  changed_.notify_all();
}

void ProgressPoller::Forget(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  paused_.erase(job_uid);
  const auto found = peers_.find(job_uid);
  if (found == peers_.end()) return;
  retired_.push_back(std::move(found->second));
  peers_.erase(found);
}

std::optional<GroupState> ProgressPoller::State(const std::string& job_uid) {
  const std::lock_guard lock(mutex_);
  const auto peer = peers_.find(job_uid);
  return peer == peers_.end() ? std::nullopt : peer->second->group;
}

void ProgressPoller::Loop(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    CloseRetired(lock);
    must_look_ = false;
    const SteadyTime next = AskDue();
    changed_.wait_until(lock, stop, next, [this] { return must_look_; });
  }
}

// Runs off the callers' threads: when the last channel of a process closes, gRPC joins its callback
// threads, so a channel must not be closed on one of those.
void ProgressPoller::CloseRetired(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<void>> retired = std::exchange(retired_, {});
  lock.unlock();
  retired.clear();
  lock.lock();
}

// Requires mutex_. Asks the peers that are due, in the order of FairOrder. Returns when the next
// one is due; at the limit of calls, the end of a call wakes the loop.
SteadyTime ProgressPoller::AskDue() {
  const SteadyTime now = std::chrono::steady_clock::now();
  SteadyTime next = now + options_.interval;
  std::vector<std::shared_ptr<Peer>> due;
  for (const auto& [uid, peer] : peers_) {
    if (peer->asked) continue;
    if (peer->next_call <= now) {
      due.push_back(peer);
    } else {
      next = std::min(next, peer->next_call);
    }
  }
  if (calls_.size() >= options_.most_calls) return next;
  for (const std::shared_ptr<Peer>& peer : FairOrder(std::move(due))) {
    if (calls_.size() >= options_.most_calls) break;
    peer->next_call = now + options_.interval;
    Ask(peer);
  }
  return next;
}

// Requires mutex_. Orders peers so that each next call goes to the namespace with the fewest calls
// in flight, and in it to the peer that has waited longest: silent pods, each of which holds a call
// until its deadline, delay only those of their own namespace. Of equal namespaces, that of the
// peer that has waited longest comes first.
std::vector<std::shared_ptr<ProgressPoller::Peer>> ProgressPoller::FairOrder(
    std::vector<std::shared_ptr<Peer>> due) const {
  std::ranges::sort(due, {}, [](const auto& peer) { return peer->next_call; });
  std::map<std::string, std::size_t> calls_of;  // in flight, and those of the peers before
  for (const auto& [call, owned] : calls_) ++calls_of[call->peer->target.namespace_name];
  using Rank = std::tuple<std::size_t, SteadyTime, std::shared_ptr<Peer>>;
  std::vector<Rank> ranked;
  ranked.reserve(due.size());
  for (std::shared_ptr<Peer>& peer : due) {
    const std::size_t before = calls_of[peer->target.namespace_name]++;
    ranked.emplace_back(before, peer->next_call, std::move(peer));
  }
  std::ranges::sort(ranked);
  std::vector<std::shared_ptr<Peer>> order;
  order.reserve(ranked.size());
  for (Rank& rank : ranked) order.push_back(std::move(std::get<2>(rank)));
  return order;
}

// Requires mutex_. Opens a new connection at once if the trainer has restarted at its old address.
bool ProgressPoller::Reach(Peer& peer) {
  if (peer.link && connections_.Allow(peer.link->id)) return true;
  retired_.push_back(std::exchange(peer.link, nullptr));
  absl::StatusOr<PodConnections::Opened> opened =
      connections_.Open(peer.target.host, peer.target.port);
  if (!opened.ok()) return false;
  peer.link = std::make_shared<Link>(*std::move(opened));
  return true;
}

// Requires mutex_. The answer arrives on a gRPC thread.
void ProgressPoller::Ask(const std::shared_ptr<Peer>& peer) {
  if (!Reach(*peer)) {
    peer->lost.clear();
    peer->group.reset();
    ++peer->unanswered;
    return;
  }
  auto owned = std::make_unique<Call>();
  Call* call = owned.get();
  call->peer = peer;
  call->context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(options_.deadline));
  call->request.set_nonce(peer->nonce);
  call->request.set_workers(peer->told_workers);
  if (options_.token_of) call->token = options_.token_of(peer->target.job_uid);
  if (call->token.present()) call->request.set_answer_nonce(RandomBytes(kAnswerNonceBytes));
  const bool is_covered = peer->nonce.starts_with(api::kDialledNonce);
  if (is_covered) call->request.set_dialled(peer->target.host);
  if (!peer->nonce.empty()) {
    call->request.set_proof(
        call->token.Prove(api::kProofOfStatus, peer->nonce,
                          is_covered ? call->request.SerializeAsString() : std::string()));
  }
  peer->asked = true;
  calls_.emplace(call, std::move(owned));
  peer->link->stub->async()->GetStatus(
      &call->context, &call->request, &call->response,
      [this, call](const grpc::Status& status) { OnAnswer(*call, status); });
}

// False for a report without proof of the job's token, if the job's pods prove theirs. A
// trainer of an earlier version, or one whose pods have no token, does not.
bool ProgressPoller::MayBelieve(Call& call) {
  Peer& peer = *call.peer;
  proto::GetStatusResponse content = call.response;
  content.clear_proof();
  if (call.response.proof().empty()) return !call.token.present() || !peer.known.proves;
  if (!call.token.present()) return false;
  const bool is_proven = call.token.Accepts(api::kProofOfStatusAnswer, call.request.answer_nonce(),
                                            content.SerializeAsString(), call.response.proof());
  peer.known.proves = peer.known.proves || is_proven;
  return is_proven;
}

// Requires mutex_.
void ProgressPoller::TakeReport(const proto::GetStatusResponse& said, Peer& peer) {
  if (peer.target.is_evaluator) {
    // Less than before: its process was started again, and has begun to evaluate since.
    const std::int64_t batches = said.evaluated_batches();
    if (batches != std::exchange(peer.evaluated_batches, batches) && batches > 0) {
      peer.known.evaluated_at = std::chrono::steady_clock::now();
    }
    return;
  }
  peer.lost = NamesIn(said.missing_members(), IsPodName);
  peer.stragglers = StragglersIn(said);
  peer.known.hung = said.missing().empty() ? std::vector<controller::Straggler>() : peer.stragglers;
  peer.known.hung_at = std::chrono::steady_clock::now();
  peer.group = GroupIn(said);
  const bool saves = peer.group->activity == api::Activity::kCheckpoint;
  if (!saves) peer.saves_since.reset();
  if (saves && !peer.saves_since) peer.saves_since = std::chrono::steady_clock::now();
  peer.known.resizes = said.workers() > 0;
  peer.workers.reset();
  if (said.workers() > 0) peer.workers = std::min(said.workers(), kMostWorkers);
  const api::Progress progress = ProgressIn(said.progress());
  if (said.has_progress() && api::IsInRange(progress)) peer.known.latest = progress;
  peer.step.Record(said, std::chrono::steady_clock::now());
}

// For an answer that is no report: true if the leading pod would have sent one.
bool ProgressPoller::IsSilence(const Call& call, const grpc::Status& status) {
  if (!status.ok()) {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
           status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  }
  return !call.response.job_uid().empty() || !call.request.proof().empty();
}

void ProgressPoller::OnAnswer(Call& call, const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  Peer& peer = *call.peer;
  peer.asked = false;
  // A pod that answered nonsense, or does not read what it is sent, loses its connection until the
  // next question.
  const bool is_kept = status.ok() && connections_.size() <= options_.most_links &&
                       connections_.KeepsUp(peer.link->id);
  if (!is_kept) retired_.push_back(std::exchange(peer.link, nullptr));
  const proto::GetStatusResponse& said = call.response;
  peer.lost.clear();
  peer.stragglers.clear();
  if (status.ok() && said.nonce().size() <= kLongestNonce) {
    // The first answer of a pod with a token contains only the nonce that a proof is made for.
    if (peer.nonce.empty() && !said.nonce().empty()) {
      peer.next_call = SteadyTime();
      must_look_ = true;
    }
    peer.nonce = said.nonce();
  }
  if (status.ok() && IsReportOf(said, peer.target.job_uid) && MayBelieve(call)) {
    peer.has_answered = true;
    // What rank 0 did while nobody heard of it is unknown.
    if (std::exchange(peer.unanswered, 0) >= kSilence) peer.step.Reset();
    TakeReport(said, peer);
  } else {
    peer.group.reset();  // the pod may be dead, or another may have its address now
    if (IsSilence(call, status)) ++peer.unanswered;
  }
  const bool has_more_to_say = peer.next_call == SteadyTime();
  if (calls_.size() >= options_.most_calls || has_more_to_say) must_look_ = true;
  retired_.push_back(std::move(call.peer));
  calls_.erase(&call);
  changed_.notify_all();
}

}  // namespace lockstep::progress
