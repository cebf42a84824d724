#include "trainer/strategy/parameter_server/shard_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "trainer/strategy/parameter_server/data_stream.h"

namespace lockstep::train {
namespace {

constexpr char kNotLeading[] = "the caller does not lead the run, or no longer";

std::unique_ptr<SharedSegment> Map(const std::string& locator, std::int64_t floats) {
  if (locator.empty() || floats <= 0) return nullptr;
  const auto parsed = SharedSegment::Locator::Parse(locator);
  if (!parsed.ok()) return nullptr;
  auto mapped = SharedSegment::Attach(*parsed, static_cast<std::size_t>(floats) * sizeof(float));
  return mapped.ok() ? *std::move(mapped) : nullptr;  // on another host, most likely
}

const float* FloatsIn(const SharedSegment& segment) {
  return reinterpret_cast<const float*>(segment.data());
}

std::int64_t SizeOf(const SharedSegment& segment) {
  return static_cast<std::int64_t>(segment.size() / sizeof(float));
}

// The largest offset in the flat parameters, to which the statistics are appended.
std::int64_t EndOf(const ShardLayout& layout) {
  return layout.ranges.empty() ? 0 : layout.ranges.back().end;
}

ShardLayout LayoutOf(const proto::Load& load) {
  ShardLayout layout{.ranges = {},
                     .states = load.states(),
                     .kept_states = {},
                     .segments = {},
                     .parts = load.parts(),
                     .total_steps = load.total_steps(),
                     .skipped_steps = load.skipped_steps(),
                     .parameters = load.parameters()};
  for (const proto::Range& range : load.ranges()) {
    layout.ranges.push_back({range.begin(), range.end()});
  }
  for (int i = 0; i < std::min(load.kept_ends_size(), load.kept_size()); ++i) {
    layout.kept_states.push_back({.end = load.kept_ends(i), .kept = load.kept(i)});
  }
  std::int64_t begin = 0;
  for (int i = 0; i < std::min(load.segment_ends_size(), load.segment_decays_size()); ++i) {
    layout.segments.push_back(
        {.begin = begin, .end = load.segment_ends(i), .decays = load.segment_decays(i)});
    begin = load.segment_ends(i);
  }
  return layout;
}

}  // namespace

ShardSession::ShardSession(Shard& shard, ShardStream& stream, const proto::Introduction& who,
                           bool leads, std::function<bool()> is_stopping, MakeContent make_content)
    : shard_(shard),
      stream_(stream),
      leads_(leads),
      leader_{who.pod_started(), who.process_number()},
      is_stopping_(std::move(is_stopping)),
      make_content_(std::move(make_content)) {
  if (leads_) shard_.LeaderCame(leader_);
  gradients_ = Map(who.gradients(), who.gradient_floats());
  if (gradients_ != nullptr) values_ = Map(who.values(), who.value_floats());
  if (values_ == nullptr) gradients_ = nullptr;
}

bool ShardSession::Welcome(const std::string& proof) {
  proto::ShardReply reply;
  reply.mutable_welcome()->set_fence(shard_.fence());
  reply.mutable_welcome()->set_shared(values_ != nullptr);
  reply.set_proof(proof);
  return Reply(reply);
}

bool ShardSession::Serve(const std::function<void()>& releasing) {
  proto::ShardRequest request;
  events_ = {};
  if (!stream_.Read(&request)) return false;
  switch (request.request_case()) {
    case proto::ShardRequest::kPush:
      return Push(request.push());
    case proto::ShardRequest::kPull:
      return Pull(request.pull());
    case proto::ShardRequest::kLoad:
      return Load(request.load());
    case proto::ShardRequest::kSaved:
      return Saved(request.saved(), releasing);
    case proto::ShardRequest::kCheck:
      return Check(request.check());
    case proto::ShardRequest::kFinish:
      return Finish();
    default:
      return false;
  }
}

bool ShardSession::Saved(const proto::Saved& saved, const std::function<void()>& releasing) {
  if (IsSuperseded()) return ReplyLoaded(absl::AbortedError(kNotLeading));
  events_.released = is_stopping_() && shard_.ClearIfAt(saved.fence(), saved.version());
  proto::ShardReply reply;
  reply.mutable_loaded()->set_released(events_.released);
  if (events_.released) releasing();
  return Reply(reply);
}

bool ShardSession::Check(const proto::Check& check) {
  const bool is_stopping = is_stopping_();
  const absl::Status checked = shard_.Check(check.fence());
  if (!checked.ok()) return ReplyFenced(checked);
  proto::ShardReply reply;
  reply.mutable_checked()->set_stopping(is_stopping);
  return Reply(reply);
}

bool ShardSession::Finish() {
  if (IsSuperseded()) return ReplyLoaded(absl::AbortedError(kNotLeading));
  events_.finished = true;
  return ReplyLoaded(absl::OkStatus());
}

bool ShardSession::ReplyLoaded(const absl::Status& status) {
  proto::ShardReply reply;
  reply.mutable_loaded()->set_refusal(std::string(status.message()));
  reply.mutable_loaded()->set_superseded(absl::IsAborted(status));
  reply.mutable_loaded()->set_is_temporary(absl::IsResourceExhausted(status));
  return Reply(reply);
}

// Reads a sequence of Data into received_.
bool ShardSession::Receive(std::int64_t floats) {
  received_.resize(static_cast<std::size_t>(floats));
  DataSink sink({received_});
  proto::ShardRequest request;
  do {
    if (!stream_.Read(&request) || !request.has_data() || !sink.Take(request.data())) return false;
  } while (!request.data().last());
  return sink.taken() == floats;
}

bool ShardSession::ReplyFenced(const absl::Status& status) {
  proto::ShardReply reply;
  reply.mutable_fenced()->set_fence(shard_.fence());
  reply.mutable_fenced()->set_reason(std::string(status.message()));
  return Reply(reply);
}

// Whether the caller's memory has room for what the layout says.
bool ShardSession::IsMapped(const ShardLayout& layout) const {
  const std::int64_t floats = layout.parameters + layout.states;
  return values_ != nullptr && EndOf(layout) <= layout.parameters &&
         floats <= SizeOf(*gradients_) && floats <= SizeOf(*values_);
}

Shard::Gradient ShardSession::GradientOf(const proto::Push& push, const ShardLayout& layout) const {
  Shard::Gradient gradient{.fence = push.fence(),
                           .step = push.step(),
                           .part = push.part(),
                           .version = push.version(),
                           .scale = push.scale(),
                           .skip = push.skip(),
                           .ranges = {},
                           .states = nullptr};
  if (push.skip()) return gradient;
  const float* at = received_.data();
  for (const FlatRange& range : layout.ranges) {
    gradient.ranges.push_back(push.shared() ? FloatsIn(*gradients_) + range.begin : at);
    at += range.size();
  }
  gradient.states = push.shared() ? FloatsIn(*gradients_) + layout.parameters : at;
  return gradient;
}

bool ShardSession::Push(const proto::Push& push) {
  const ShardLayout layout = shard_.layout();
  const bool has_data = !push.skip() && !push.shared();
  if (has_data) {
    // A shard without values does not know how much data will come. Reads all of it; the caller
    // then has to load the shard.
    if (shard_.fence() != push.fence()) {
      proto::ShardRequest request;
      do {
        if (!stream_.Read(&request) || !request.has_data()) return false;
      } while (!request.data().last());
      return ReplyFenced(absl::FailedPreconditionError("its values were loaded anew or are lost"));
    }
    if (!Receive(layout.values() + layout.states)) return false;
  }
  if (push.shared() && !push.skip() && !IsMapped(layout)) return false;
  const auto outcome = shard_.Push(GradientOf(push, layout));
  if (!outcome.ok()) return ReplyFenced(outcome.status());
  proto::ShardReply reply;
  reply.mutable_pushed()->set_staleness(outcome->staleness);
  reply.mutable_pushed()->set_dropped(outcome->dropped);
  reply.mutable_pushed()->set_stopping(is_stopping_());
  return Reply(reply);
}

void ShardSession::WriteShared(std::span<const float> content, const ShardLayout& layout) {
  auto* const to = reinterpret_cast<float*>(values_->data());
  const float* from = content.data();
  for (const FlatRange& range : layout.ranges) {
    std::copy_n(from, range.size(), to + range.begin);
    from += range.size();
  }
  std::copy_n(from, layout.states, to + layout.parameters);
}

bool ShardSession::ReplyPlace(const Shard::Place& place) {
  proto::ShardReply reply;
  proto::Pulled& pulled = *reply.mutable_pulled();
  pulled.set_version(place.version);
  pulled.set_memory(place.memory);
  pulled.set_memory_floats(place.floats);
  pulled.set_sequence(place.sequence);
  return Reply(reply);
}

bool ShardSession::Pull(const proto::Pull& pull) {
  const ShardLayout layout = shard_.layout();
  if (pull.shared() && !IsMapped(layout)) return false;
  const bool is_stopping = is_stopping_();
  const Shard::Request request{.fence = pull.fence(),
                               .version = pull.version(),
                               .scale = pull.scale(),
                               .skip = pull.skip(),
                               .slots = pull.slots()};
  if (pull.direct()) {
    const auto place = shard_.Locate(request);
    if (!place.ok()) return ReplyFenced(place.status());
    if (!place->memory.empty()) return ReplyPlace(*place);
  }
  std::vector<proto::Data> messages;
  const auto version = shard_.Pull(request, [&](std::span<const float> content) {
    if (pull.shared()) return WriteShared(content, layout);
    for (DataSource source({content}); !source.done();) {
      source.Fill(messages.emplace_back());
    }
  });
  if (!version.ok()) return ReplyFenced(version.status());
  proto::ShardReply reply;
  reply.mutable_pulled()->set_version(*version);
  reply.mutable_pulled()->set_stopping(is_stopping);
  if (!Reply(reply)) return false;
  for (proto::Data& message : messages) {
    *reply.mutable_data() = std::move(message);
    if (!Reply(reply)) return false;
  }
  return true;
}

// The memory for what a load with this layout brings; or why there is to be no load.
absl::StatusOr<std::unique_ptr<SharedContent>> ShardSession::RoomFor(
    const ShardLayout& layout) const {
  if (IsSuperseded()) return absl::AbortedError(kNotLeading);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::int64_t floats, shard_.FloatsToLoad(layout));
  return make_content_(floats);
}

// The floats are received where they will stay: copying them from a growing buffer took longer than
// all the rest. A load that is refused is still read to its end, so that it can be answered.
bool ShardSession::Load(const proto::Load& load) {
  ShardLayout layout = LayoutOf(load);
  absl::StatusOr<std::unique_ptr<SharedContent>> content = RoomFor(layout);
  std::vector<std::span<float>> room;
  if (content.ok()) {
    room.emplace_back((*content)->data(), static_cast<std::size_t>((*content)->size()));
  }
  DataSink sink(std::move(room));
  proto::ShardRequest request;
  do {
    if (!stream_.Read(&request) || !request.has_data()) return false;
    const std::int64_t before = sink.taken();
    if (!sink.Take(request.data()) && sink.taken() == before) return false;
  } while (!request.data().last());
  absl::Status loaded = content.status();
  if (loaded.ok() && sink.taken() != (*content)->size()) {
    loaded = absl::InvalidArgumentError(
        fmt::format("parameter server: found {} floats to load, expected {}", sink.taken(),
                    (*content)->size()));
  }
  if (loaded.ok()) {
    loaded =
        shard_.Load(load.fence(), std::move(layout), load.step(), *std::move(content), leader_);
  }
  if (!loaded.ok()) {
    LogError("the values cannot be loaded", {{"reason", std::string(loaded.message())}});
  }
  return ReplyLoaded(loaded);
}

}  // namespace lockstep::train
