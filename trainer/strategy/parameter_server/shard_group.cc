#include "trainer/strategy/parameter_server/shard_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "trainer/rendezvous/idle_poll.h"
#include "trainer/strategy/parameter_server/shared_content.h"

namespace lockstep::train {
namespace {

// The segments of a shard, in the order in which it stores its ranges.
void AddSegments(const std::vector<OptimizerSegment>& segments, const ShardRanges& ranges,
                 proto::Load& load) {
  std::int64_t end = 0;
  for (const FlatRange& range : ranges) {
    for (const OptimizerSegment& segment : segments) {
      const std::int64_t first = std::max(range.begin, segment.begin);
      const std::int64_t last = std::min(range.end, segment.end);
      if (first >= last) continue;
      end += last - first;
      load.add_segment_ends(end);
      load.add_segment_decays(segment.decays);
    }
  }
}

// Calls take(server) for every server, even after an error, so that no answer stays unread. Returns
// the first of the errors with the largest WeightOf.
template <typename Take>
absl::Status ForEachAnswer(const Take& take, std::size_t servers) {
  absl::Status most;
  for (std::size_t server = 0; server < servers; ++server) {
    absl::Status status = take(server);
    if (WeightOf(status) > WeightOf(most)) most = std::move(status);
  }
  return most;
}

absl::Status StatusOf(const proto::Loaded& loaded, std::size_t server) {
  if (loaded.refusal().empty()) return absl::OkStatus();
  const std::string text = fmt::format("ps {}: {}", server, loaded.refusal());
  if (loaded.superseded()) return absl::AbortedError(text);
  return loaded.is_temporary() ? absl::ResourceExhaustedError(text)
                               : absl::InvalidArgumentError(text);
}

}  // namespace

int WeightOf(const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsUnavailable(status)) return 1;
  return absl::IsResourceExhausted(status) ? 2 : 3;
}

ShardGroup::ShardGroup(ShardGroupOptions options)
    : options_(std::move(options)), poll_(KeepPolling()), links_(options_.servers.size()) {
  StartGrpc();
  if (options_.gradients.empty()) return;
  auto values = SharedSegment::Create(SharedBytes(options_));
  if (values.ok()) {
    values_ = *std::move(values);
  } else {
    LogWarning("no memory to share with the parameter servers",
               {{"reason", std::string(values.status().message())}});
  }
}

ShardGroup::~ShardGroup() = default;

std::size_t ShardGroup::SharedBytes(const ShardGroupOptions& options) {
  if (options.gradients.empty()) return 0;
  return static_cast<std::size_t>(options.parameters + options.states) * sizeof(float);
}

void ShardGroup::Disconnect() {
  for (auto& link : links_) link.reset();
}

bool ShardGroup::IsShared() const {
  return std::ranges::all_of(links_,
                             [](const auto& link) { return link != nullptr && link->is_shared(); });
}

// The parts of `values` that a server holds, in its order.
std::vector<std::span<float>> ShardGroup::RangesOf(std::size_t server,
                                                   const FlatValues& values) const {
  std::vector<std::span<float>> spans;
  const auto add = [&](std::span<float> flat) {
    for (const FlatRange& range : options_.plan[server]) {
      spans.push_back(flat.subspan(static_cast<std::size_t>(range.begin),
                                   static_cast<std::size_t>(range.size())));
    }
  };
  add(values.parameters);
  if (IsFirst(server)) spans.push_back(values.states);
  for (const std::span<float> slot : values.slots) add(slot);
  std::erase_if(spans, [](const auto& span) { return span.empty(); });
  return spans;
}

// Sends to all servers in turn, so that all of them work at the same time.
absl::Status ShardGroup::SendAll(std::vector<DataSource>& sources) {
  proto::ShardRequest request;
  absl::Status first;
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (std::size_t server = 0; server < links_.size(); ++server) {
      if (sources[server].done() || links_[server]->is_broken()) continue;
      sources[server].Fill(*request.mutable_data());
      absl::Status sent = links_[server]->Write(request);
      if (!sent.ok() && first.ok()) first = std::move(sent);
      is_done = is_done && sources[server].done();
    }
  }
  return first;
}

absl::StatusOr<ShardGroup::PushResult> ShardGroup::Push(const Gradient& gradient) {
  proto::ShardRequest request;
  proto::Push& push = *request.mutable_push();
  push.set_fence(gradient.fence);
  push.set_step(gradient.step);
  push.set_part(gradient.part);
  push.set_scale(gradient.scale);
  push.set_skip(gradient.skip);
  std::vector<DataSource> sources;
  // Sources only read.
  const auto as_mutable = [](std::span<const float> floats) {
    return std::span<float>(const_cast<float*>(floats.data()), floats.size());
  };
  const FlatValues values{.parameters = as_mutable(gradient.gradients),
                          .states = as_mutable(gradient.states),
                          .slots = {}};
  bool sends = false;
  absl::Status failed;
  for (std::size_t server = 0; server < links_.size(); ++server) {
    push.set_version(gradient.versions[server]);
    push.set_shared(gradient.in_buffer && links_[server]->is_shared());
    const bool has_data = !push.skip() && !push.shared();
    sends = sends || has_data;
    const auto ranges = has_data ? RangesOf(server, values) : std::vector<std::span<float>>{};
    sources.emplace_back(std::vector<std::span<const float>>(ranges.begin(), ranges.end()),
                         has_data);
    absl::Status written = links_[server]->Write(request);
    if (!written.ok() && failed.ok()) failed = std::move(written);
  }
  if (sends) {
    absl::Status sent = SendAll(sources);
    if (!sent.ok() && failed.ok()) failed = std::move(sent);
  }
  PushResult result{.dropped = true};
  absl::Status answered = ForEachAnswer(
      [&](std::size_t server) -> absl::Status {
        if (links_[server]->is_broken()) return failed;
        LOCKSTEP_ASSIGN_OR_RETURN(const proto::ShardReply reply, links_[server]->Read());
        result.staleness = std::max(result.staleness, reply.pushed().staleness());
        result.dropped = result.dropped && reply.pushed().dropped();
        result.stopping = result.stopping || reply.pushed().stopping();
        return absl::OkStatus();
      },
      links_.size());
  if (!answered.ok()) return answered;
  return result;
}

absl::StatusOr<std::vector<std::int64_t>> ShardGroup::Pull(const Request& request,
                                                           const FlatValues& values, bool slots) {
  proto::ShardRequest message;
  proto::Pull& pull = *message.mutable_pull();
  pull.set_fence(request.fence);
  pull.set_slots(slots);
  pull.set_version(request.version);
  pull.set_scale(request.scale);
  pull.set_skip(request.skip);
  absl::Status failed;
  is_stopping_ = false;
  if (slots) kept_fence_ = 0;
  for (std::size_t server = 0; server < links_.size(); ++server) {
    pull.set_shared(!slots && links_[server]->is_shared());
    pull.set_direct(pull.shared());
    absl::Status written = links_[server]->Write(message);
    if (!written.ok() && failed.ok()) failed = std::move(written);
  }
  std::vector<std::int64_t> versions(links_.size());
  const absl::Status answered = ForEachAnswer(
      [&](std::size_t server) -> absl::Status {
        ShardLink& link = *links_[server];
        if (link.is_broken()) return failed;
        LOCKSTEP_ASSIGN_OR_RETURN(proto::ShardReply reply, link.Read());
        if (!reply.pulled().memory().empty()) {
          versions[server] = reply.pulled().version();
          if (TakeDirect(server, reply.pulled(), values)) return absl::OkStatus();
          pull.set_shared(true);
          pull.set_direct(false);  // now the server copies, between two updates
          LOCKSTEP_RETURN_IF_ERROR(link.Write(message));
          LOCKSTEP_ASSIGN_OR_RETURN(reply, link.Read());
        }
        versions[server] = reply.pulled().version();
        is_stopping_ = is_stopping_ || reply.pulled().stopping();
        if (!slots && link.is_shared()) {
          TakeShared(server, values);
          return absl::OkStatus();
        }
        DataSink sink(RangesOf(server, values));
        do {
          LOCKSTEP_ASSIGN_OR_RETURN(reply, link.Read());
          if (sink.Take(reply.data())) continue;
          return absl::InvalidArgumentError(
              fmt::format("ps {}: found more values than the model has there", server));
        } while (!reply.data().last());
        return absl::OkStatus();
      },
      links_.size());
  if (!answered.ok()) return answered;
  if (slots) {
    kept_fence_ = request.fence;
    kept_versions_ = versions;
  }
  return versions;
}

// Copies the values from the server's memory. Returns false if that cannot be mapped or is too
// small (`values` is unchanged), or was updated meanwhile (`values` may be a mix of two versions).
bool ShardGroup::TakeDirect(std::size_t server, const proto::Pulled& pulled,
                            const FlatValues& values) {
  const SharedContent* const content = links_[server]->Map(pulled);
  const auto ranges = RangesOf(server, values);
  std::size_t floats = 0;
  for (const auto& range : ranges) floats += range.size();
  if (content == nullptr || std::cmp_greater(floats, pulled.memory_floats())) return false;
  return content->Read(pulled.sequence(), [&] {
    const float* from = content->data();
    for (const std::span<float> to : ranges) {
      std::copy_n(from, to.size(), to.data());
      from += to.size();
    }
  });
}

// Copies what the server has written into the shared memory.
void ShardGroup::TakeShared(std::size_t server, const FlatValues& values) const {
  const auto* from = reinterpret_cast<const float*>(values_->data());
  for (const FlatRange& range : options_.plan[server]) {
    std::copy_n(from + range.begin, range.size(), values.parameters.data() + range.begin);
  }
  if (IsFirst(server)) {
    std::copy_n(from + options_.parameters, options_.states, values.states.data());
  }
}

// A server that has this fence has the values already, and gets none: the call is repeated because
// others could not be loaded. But it may have lost them since it reported the fence, which an
// unused connection does not show: so this reconnects to it, and it reports its fence again.
absl::Status ShardGroup::Load(const Content& content) {
  const auto has_it = [&](std::size_t server) { return links_[server]->fence() == content.fence; };
  for (std::size_t server = 0; server < links_.size(); ++server) {
    if (has_it(server)) links_[server].reset();
  }
  LOCKSTEP_RETURN_IF_ERROR(Connect());
  std::vector<DataSource> sources;
  absl::Status failed;
  for (std::size_t server = 0; server < links_.size(); ++server) {
    const auto ranges = RangesOf(server, content.values);
    sources.emplace_back(std::vector<std::span<const float>>(ranges.begin(), ranges.end()),
                         /*exists=*/!has_it(server));
    if (has_it(server)) continue;
    absl::Status written = links_[server]->Write(RequestToLoad(server, content));
    if (!written.ok() && failed.ok()) failed = std::move(written);
  }
  absl::Status sent = SendAll(sources);
  if (!sent.ok() && failed.ok()) failed = std::move(sent);
  return ForEachAnswer(
      [&](std::size_t server) -> absl::Status {
        if (has_it(server)) return absl::OkStatus();
        if (links_[server]->is_broken()) return failed;
        LOCKSTEP_ASSIGN_OR_RETURN(const proto::ShardReply reply, links_[server]->Read());
        LOCKSTEP_RETURN_IF_ERROR(StatusOf(reply.loaded(), server));
        links_[server]->set_fence(content.fence);
        return absl::OkStatus();
      },
      links_.size());
}

proto::ShardRequest ShardGroup::RequestToLoad(std::size_t server, const Content& content) const {
  proto::ShardRequest request;
  proto::Load& load = *request.mutable_load();
  load.set_fence(content.fence);
  for (const FlatRange& range : options_.plan[server]) {
    proto::Range& to = *load.add_ranges();
    to.set_begin(range.begin);
    to.set_end(range.end);
  }
  load.set_states(IsFirst(server) ? options_.states : 0);
  load.set_parameters(options_.parameters);
  load.set_parts(content.parts);
  load.set_step(content.step);
  load.set_total_steps(content.total_steps);
  load.set_skipped_steps(content.skipped_steps);
  AddSegments(content.segments, options_.plan[server], load);
  if (!IsFirst(server)) return request;
  for (const KeptStates& run : content.kept_states) {
    load.add_kept_ends(run.end);
    load.add_kept(run.kept);
  }
  return request;
}

absl::Status ShardGroup::Finish() {
  proto::ShardRequest request;
  request.mutable_finish();
  return Ask([&](std::size_t) { return request; },
             [](std::size_t server, const proto::ShardReply& reply) {
               return StatusOf(reply.loaded(), server);
             });
}

absl::StatusOr<bool> ShardGroup::Saved() {
  bool released = false;
  const absl::Status told = Ask(
      [&](std::size_t server) {
        proto::ShardRequest request;
        proto::Saved& saved = *request.mutable_saved();
        saved.set_fence(kept_fence_);
        if (kept_fence_ != 0) saved.set_version(kept_versions_[server]);
        return request;
      },
      [&](std::size_t server, const proto::ShardReply& reply) {
        released = released || reply.loaded().released();
        return StatusOf(reply.loaded(), server);
      });
  if (!told.ok()) return told;
  return released;
}

absl::Status ShardGroup::Check(std::uint64_t fence) {
  proto::ShardRequest request;
  request.mutable_check()->set_fence(fence);
  is_stopping_ = false;
  return Ask([&](std::size_t) { return request; },
             [this](std::size_t, const proto::ShardReply& reply) {
               is_stopping_ = is_stopping_ || reply.checked().stopping();
               return absl::OkStatus();
             });
}

// Asks the servers that this group is connected to, one after the other.
absl::Status ShardGroup::Ask(
    const std::function<proto::ShardRequest(std::size_t)>& request,
    const std::function<absl::Status(std::size_t, const proto::ShardReply&)>& hear) {
  return ForEachAnswer(
      [&](std::size_t server) -> absl::Status {
        if (links_[server] == nullptr || links_[server]->is_broken()) return absl::OkStatus();
        LOCKSTEP_RETURN_IF_ERROR(links_[server]->Write(request(server)));
        LOCKSTEP_ASSIGN_OR_RETURN(const proto::ShardReply reply, links_[server]->Read());
        return hear(server, reply);
      },
      links_.size());
}

}  // namespace lockstep::train
