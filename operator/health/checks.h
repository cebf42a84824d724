// Named checks and the page that a probe reads: as the API server's own /healthz?verbose.
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
  // The message of an error says what is wrong. Thread-safe functions; before Answer.
  void Add(std::string name, std::function<absl::Status()> check);

  // 200 if all are Ok, else 503; a line for each: "[-]watches: pods: …".
  HttpAnswer Answer() const;

 private:
  std::vector<std::pair<std::string, std::function<absl::Status()>>> checks_;
};

}  // namespace lockstep::health
