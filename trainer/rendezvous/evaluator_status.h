// TrainerStatus as the Evaluator's supervisor serves it. The operator asks there whether the
// Evaluator still works once training has ended and no leading pod is left.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"

namespace lockstep::train {

// Thread-safe.
class EvaluatorStatus {
 public:
  // Starts to serve at `address`, which is host:port; port 0 picks a free one. Unavailable names
  // the address and the reason.
  static absl::StatusOr<std::unique_ptr<EvaluatorStatus>> Start(const Identity& identity,
                                                                const std::string& address,
                                                                const Clock& clock);
  virtual ~EvaluatorStatus() = default;
  virtual int port() const = 0;
  // Sets what is told from now on: the batches that the Evaluator's process has evaluated.
  virtual void Update(std::int64_t evaluated_batches) = 0;
};

}  // namespace lockstep::train
