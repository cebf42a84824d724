#include "trainer/rendezvous/solo_rendezvous.h"

#include <utility>

namespace lockstep::train {
namespace {

// Nobody else reads or writes it.
class NobodysStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>&,
                                                  const GetOptions&) override {
    return absl::FailedPreconditionError("a process that trains alone has no peers to hear from");
  }
};

class SoloRendezvous final : public Rendezvous {
 public:
  SoloRendezvous(Member self, std::function<bool()> stop_requested)
      : self_(std::move(self)), stop_requested_(std::move(stop_requested)) {}

  absl::StatusOr<Membership> Join(std::int64_t step, const std::string& /*fingerprint*/) override {
    if (stop_requested_()) return absl::CancelledError("this pod was asked to stop");
    self_.step = step;
    return Membership{.generation = ++generation_, .rank = 0, .members = {self_}};
  }
  void WithholdAddress() override {}
  void OnGenerationEnd(EndCallback) override {}
  bool LostMember() const override { return false; }
  KeyValueStore& store() override { return store_; }
  void Report(const api::Progress&) override {}
  void SetActivity(api::Activity) override {}
  void SetStepPart(api::StepPart) override {}
  bool StopRequested() const override { return stop_requested_(); }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  Member self_;
  const std::function<bool()> stop_requested_;
  std::uint64_t generation_ = 0;
  NobodysStore store_;
};

}  // namespace

std::unique_ptr<Rendezvous> MakeSoloRendezvous(Member self, std::function<bool()> stop_requested) {
  return std::make_unique<SoloRendezvous>(std::move(self), std::move(stop_requested));
}

}  // namespace lockstep::train
