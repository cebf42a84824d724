// Named checks and the page for probes, in the format of the API server's /healthz?verbose.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/http_server.h"

namespace lockstep::health {

class Checks {
 public:
  // The error's message says what is wrong. `check` must be thread-safe. Requires: Answer() has not
  // been called.
  void Add(std::string name, std::function<absl::Status()> check);

  // Runs all checks. 200 if all return Ok, else 503; one line per check: "[-]watches: pods: …". All
  // who ask within a second get the same answer: no check is run as often as anybody likes.
  HttpAnswer Answer() const;

 private:
  std::vector<std::pair<std::string, std::function<absl::Status()>>> checks_;
};

}  // namespace lockstep::health
