// The order of passes is 1F1B (Narayanan et al., "PipeDream", 2019; its flushing variant in
// "Memory-efficient pipeline-parallel DNN training", 2021): a stage begins with as many forward
// passes as there are stages after it, and then does one backward pass after each forward pass. So
// a stage holds no more micro-batches than there are stages from it to the end, and every update
// sees the gradients of the whole batch.
#include "trainer/train/stage_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

using OnReady = std::function<void(std::int64_t offset, std::int64_t floats)>;

class StageBatch {
 public:
  // `batch`: null in later stages.
  StageBatch(Session& session, StageGroups& groups, const Batch* batch)
      : session_(session), groups_(groups), batch_(batch), rest_(session.part_bytes()) {}

  // Runs forward and backward of all parts. Calls `on_ready` as ranges of the sum of the parts'
  // gradients become ready.
  absl::Status Train(PhaseClock& phases, const std::function<void(api::StepPart)>& entered,
                     const OnReady& on_ready);
  absl::Status Evaluate(EvaluationMetrics& metrics);

 private:
  absl::Status Forward(int part, Mode mode);
  absl::Status Backward(int part, const OnReady& on_ready);
  absl::Status TakeInput(int part);
  absl::Status SendOutput(int part);
  absl::Status LastBackward(int part, const OnReady& on_ready);
  absl::StatusOr<std::span<std::byte>> Next(StageLink& link);
  void ExpectMessages(bool trains);

  Session& session_;
  StageGroups& groups_;
  const Batch* const batch_;
  std::vector<std::byte> rest_;   // of the part's message; see Session::part_bytes
  PhaseClock* phases_ = nullptr;  // null: not timed
  const std::function<void(api::StepPart)>* entered_ = nullptr;
};

// Waits for a neighbour, or for room in its direction.
absl::StatusOr<std::span<std::byte>> StageBatch::Next(StageLink& link) {
  if (phases_ == nullptr) return link.Next();
  (*entered_)(api::StepPart::kPeers);
  absl::StatusOr<std::span<std::byte>> message = [&] {
    const PhaseTimer timer(*phases_, Phase::kCommunication);
    return link.Next();
  }();
  (*entered_)(api::StepPart::kCompute);
  return message;
}

void StageBatch::ExpectMessages(bool trains) {
  const int parts = session_.parts();
  if (StageLink* link = groups_.from_previous(); link != nullptr) link->Expect(parts);
  if (StageLink* link = groups_.to_next(); link != nullptr) link->Expect(parts);
  if (!trains) return;
  if (StageLink* link = groups_.to_previous(); link != nullptr) link->Expect(parts);
  if (StageLink* link = groups_.from_next(); link != nullptr) link->Expect(parts);
}

absl::Status StageBatch::TakeInput(int part) {
  if (session_.stage().is_first()) {
    session_.LoadFirstStage(*batch_, part, rest_);
    return absl::OkStatus();
  }
  StageLink& link = *groups_.from_previous();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<std::byte> message, Next(link));
  std::memcpy(rest_.data(), message.data(), rest_.size());
  session_.LoadLaterStage(part, rest_);
  const Model::Border border = session_.model_of(part).InputBorder();
  session_.backend().Upload(message.data() + rest_.size(), border.value, border.bytes);
  link.Done();
  return absl::OkStatus();
}

absl::Status StageBatch::SendOutput(int part) {
  StageLink& link = *groups_.to_next();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<std::byte> message, Next(link));
  std::memcpy(message.data(), rest_.data(), rest_.size());
  const Model::Border border = session_.model_of(part).OutputBorder();
  session_.backend().Download(border.value, message.data() + rest_.size(), border.bytes);
  link.Done();
  return absl::OkStatus();
}

absl::Status StageBatch::Forward(int part, Mode mode) {
  LOCKSTEP_RETURN_IF_ERROR(TakeInput(part));
  session_.model_of(part).Forward(mode);
  if (!session_.stage().is_last()) return SendOutput(part);
  if (mode == Mode::kTraining) session_.training_loss().Run();
  return absl::OkStatus();
}

absl::Status StageBatch::Backward(int part, const OnReady& on_ready) {
  Model& model = session_.model_of(part);
  if (!session_.stage().is_last()) {
    StageLink& link = *groups_.from_next();
    LOCKSTEP_ASSIGN_OR_RETURN(const std::span<std::byte> message, Next(link));
    const Model::Border border = model.OutputBorder();
    session_.backend().Upload(message.data(), border.gradient, border.bytes);
    link.Done();
  }
  model.Backward(on_ready);
  if (session_.stage().is_first()) return absl::OkStatus();
  StageLink& link = *groups_.to_previous();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::span<std::byte> message, Next(link));
  const Model::Border border = model.InputBorder();
  session_.backend().Download(border.gradient, message.data(), border.bytes);
  link.Done();
  return absl::OkStatus();
}

// All forward passes are done: the totals and running statistics are those of the batch.
absl::Status StageBatch::LastBackward(int part, const OnReady& on_ready) {
  session_.OfferStatesAndTotals();
  on_ready(std::ssize(session_.model().gradients()), 0);
  return Backward(part, [&](std::int64_t offset, std::int64_t floats) {
    if (session_.parts() > 1) session_.AddKeptGradients(offset, floats);
    on_ready(offset, floats);
  });
}

absl::Status StageBatch::Train(PhaseClock& phases,
                               const std::function<void(api::StepPart)>& entered,
                               const OnReady& on_ready) {
  phases_ = &phases;
  entered_ = &entered;
  ExpectMessages(/*trains=*/true);
  const int parts = session_.parts();
  const int ahead = std::min(session_.stage().count - 1 - session_.stage().index, parts);
  for (int part = 0; part < ahead; ++part) {
    LOCKSTEP_RETURN_IF_ERROR(Forward(part, Mode::kTraining));
  }
  for (int part = 0; part < parts; ++part) {
    if (part + ahead < parts) LOCKSTEP_RETURN_IF_ERROR(Forward(part + ahead, Mode::kTraining));
    if (part + 1 == parts) return LastBackward(part, on_ready);
    LOCKSTEP_RETURN_IF_ERROR(Backward(part, [](std::int64_t, std::int64_t) {}));
    session_.KeepGradients();
  }
  return absl::OkStatus();
}

absl::Status StageBatch::Evaluate(EvaluationMetrics& metrics) {
  ExpectMessages(/*trains=*/false);
  for (int part = 0; part < session_.parts(); ++part) {
    LOCKSTEP_RETURN_IF_ERROR(Forward(part, Mode::kEvaluation));
    if (session_.stage().is_last()) session_.AddEvaluation(metrics);
  }
  return absl::OkStatus();
}

// A double as floats whose sums with zeros are exact.
constexpr std::size_t kFloatsOfNorm = 4;
std::array<float, kFloatsOfNorm> SplitNorm(double norm) {
  int exponent = 0;
  const double mantissa = std::frexp(norm, &exponent);
  const auto high = static_cast<float>(mantissa);
  const auto middle = static_cast<float>(mantissa - static_cast<double>(high));
  const auto low =
      static_cast<float>(mantissa - static_cast<double>(high) - static_cast<double>(middle));
  return {high, middle, low, std::isfinite(norm) ? static_cast<float>(exponent) : 0.0f};
}
double JoinNorm(std::span<const float> parts) {
  const double mantissa =
      static_cast<double>(parts[0]) + static_cast<double>(parts[1]) + static_cast<double>(parts[2]);
  return std::ldexp(mantissa, static_cast<int>(parts[3]));
}

constexpr std::size_t kFloatsOfTail = sizeof(StepTail) / sizeof(float);

// Gives all ranks the totals of all stages, so that all decide alike about the update. The ranks
// of a stage have equal sums by now, so the first pipeline speaks for all.
absl::Status ShareTotals(Session& session, Strategy& strategy) {
  const StagePlace& place = strategy.stages()->place();
  const StepTail own = session.OwnTail();
  // A device's sums have been made by now.
  LOCKSTEP_RETURN_IF_ERROR(strategy.SumStatus());
  std::vector<float> sums(kFloatsOfTail + kFloatsOfNorm * static_cast<std::size_t>(place.stages));
  const std::span<float> norms = std::span(sums).subspan(kFloatsOfTail);
  const auto of_stage = [&](int stage) {
    return norms.subspan(static_cast<std::size_t>(stage) * kFloatsOfNorm, kFloatsOfNorm);
  };
  const double own_norm = session.OwnGradientNorm();
  if (place.pipeline == 0) {
    std::memcpy(sums.data(), &own, sizeof(own));
    std::ranges::copy(SplitNorm(own_norm), of_stage(place.stage).begin());
  }
  LOCKSTEP_RETURN_IF_ERROR(strategy.Sum(sums));
  StepTail total;
  std::memcpy(static_cast<void*>(&total), sums.data(), sizeof(total));
  double squared_norm = 0;
  for (int stage = 0; stage < place.stages; ++stage) {
    const double norm = JoinNorm(of_stage(stage));
    squared_norm += norm * norm;
  }
  session.TakeTotals(total, squared_norm);
  return absl::OkStatus();
}

absl::Status ComputeAndSum(Session& session, Strategy& strategy, const Batch* batch,
                           const StepOptions& options, PhaseClock& phases) {
  {
    const PhaseTimer timer(phases, Phase::kBackward);  // but for what has a timer of its own
    StageBatch stage(session, *strategy.stages(), batch);
    LOCKSTEP_RETURN_IF_ERROR(
        stage.Train(phases, options.entered,
                    [&](std::int64_t offset, std::int64_t) { strategy.GradientsReady(offset); }));
    session.backend().Synchronize();  // what follows waits for peers
  }
  options.entered(api::StepPart::kPeers);
  const PhaseTimer timer(phases, Phase::kCommunication);
  LOCKSTEP_RETURN_IF_ERROR(strategy.FinishGradients());
  return ShareTotals(session, strategy);
}

}  // namespace

std::optional<LoopOutcome> RunStageStep(Session& session, Strategy& strategy, Loader* loader,
                                        const StepOptions& options, PhaseClock& phases) {
  const Batch* batch = nullptr;
  if (session.stage().is_first()) {
    absl::StatusOr<const Batch*> next = NextBatch(*loader, options, phases);
    if (!next.ok()) return FailedFor(std::move(next).status());
    batch = *next;
  }
  options.entered(api::StepPart::kCompute);
  BeginSessionStep(session, batch, options);
  absl::Status summed = ComputeAndSum(session, strategy, batch, options, phases);
  options.entered(api::StepPart::kCompute);
  const PhaseTimer timer(phases, Phase::kOptimizer);
  session.Update(std::move(summed));
  return std::nullopt;
}

absl::Status EvaluateStage(Session& session, StageGroups& groups, const Batch* batch,
                           EvaluationMetrics& metrics) {
  return StageBatch(session, groups, batch).Evaluate(metrics);
}

}  // namespace lockstep::train
