#include "operator/local/object_filter.h"

#include "base/status.h"

namespace lockstep::local {

absl::StatusOr<ObjectFilter> ObjectFilter::Parse(const std::string& namespace_name,
                                                 const std::string& label_selector) {
  ObjectFilter filter;
  filter.namespace_name_ = namespace_name;
  LOCKSTEP_ASSIGN_OR_RETURN(filter.selector_, LabelSelector::Parse(label_selector));
  return filter;
}

bool ObjectFilter::Matches(const kube::Object& object) const {
  if (!namespace_name_.empty() && kube::Namespace(object) != namespace_name_) return false;
  const kube::Object& metadata = object["metadata"];
  return selector_.Matches(metadata.contains("labels") ? metadata["labels"] : kube::Object());
}

}  // namespace lockstep::local
