#include "operator/health/checks.h"

#include <fmt/format.h>

#include <chrono>

namespace lockstep::health {

void Checks::Add(std::string name, std::function<absl::Status()> check) {
  checks_.emplace_back(std::move(name), std::move(check));
}

HttpAnswer Checks::Answer() const {
  HttpAnswer answer;
  answer.fresh_for = std::chrono::seconds(1);
  for (const auto& [name, check] : checks_) {
    const absl::Status status = check();
    if (status.ok()) {
      answer.body += fmt::format("[+]{}: ok\n", name);
    } else {
      answer.body += fmt::format("[-]{}: {}\n", name, std::string(status.message()));
      answer.status = 503;
    }
  }
  answer.body += answer.status == 200 ? "ok\n" : "failed\n";
  return answer;
}

}  // namespace lockstep::health
