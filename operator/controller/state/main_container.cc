#include "operator/controller/state/main_container.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/v1/names.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

bool IsMainContainerName(std::string_view name) {
  return std::ranges::find(api::kMainContainerNames, name) != std::end(api::kMainContainerNames);
}

const api::Json* MainContainerOf(const api::Json& containers) {
  if (!containers.is_array() || containers.empty()) return nullptr;
  for (const std::string_view name : api::kMainContainerNames) {
    for (const api::Json& container : containers) {
      if (kube::TextMember(container, "name") == name) return &container;
    }
  }
  return &containers.front();
}

api::Json* MainContainerOf(api::Json& containers) {
  return const_cast<api::Json*>(MainContainerOf(std::as_const(containers)));
}

const api::Json* FindMainContainer(const api::Json& pod_template) {
  static const api::Json::json_pointer kContainers("/spec/containers");
  if (!pod_template.contains(kContainers)) return nullptr;
  return MainContainerOf(pod_template.at(kContainers));
}

std::string FindMainImage(const api::Json& pod_template) {
  const api::Json* main = FindMainContainer(pod_template);
  return main == nullptr ? "" : kube::TextMember(*main, "image");
}

std::string MainContainerName(const api::Json& pod) {
  const api::Json& annotations = kube::Member(kube::Member(pod, "metadata"), "annotations");
  std::string name = kube::TextMember(annotations, api::kAnnotationMainContainer);
  if (!name.empty()) return name;
  const api::Json* main = MainContainerOf(kube::Member(kube::Member(pod, "spec"), "containers"));
  return main == nullptr ? "" : kube::TextMember(*main, "name");
}

}  // namespace lockstep::controller
