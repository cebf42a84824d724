// Kubernetes label selectors: equality (a=b, a==b, a!=b) and set-based (a in (x,y), a notin (x),
// a, !a), joined by commas. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::local {

class LabelSelector {
 public:
  // Matches everything.
  LabelSelector() = default;

  // FailedPrecondition names the selector and the token at which parsing failed.
  static absl::StatusOr<LabelSelector> Parse(std::string_view text);

  // `labels` is metadata.labels, or null. As in Kubernetes, != and notin match an absent label.
  bool Matches(const nlohmann::json& labels) const;

 private:
  enum class Operator { kIn, kNotIn, kExists, kDoesNotExist };
  struct Requirement {
    std::string key;
    Operator op = Operator::kExists;
    std::set<std::string> values;
  };

  std::vector<Requirement> requirements_;
};

}  // namespace lockstep::local
