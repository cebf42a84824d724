// Which objects a list or a watch is about. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/object.h"
#include "operator/local/label_selector.h"

namespace lockstep::local {

class ObjectFilter {
 public:
  // Matches everything.
  ObjectFilter() = default;

  // An empty namespace means all. Fails like LabelSelector::Parse.
  static absl::StatusOr<ObjectFilter> Parse(const std::string& namespace_name,
                                            const std::string& label_selector);

  bool Matches(const kube::Object& object) const;

 private:
  std::string namespace_name_;
  LabelSelector selector_;
};

}  // namespace lockstep::local
