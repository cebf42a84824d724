#include "operator/controller/children/pod_requests.h"

#include <algorithm>

#include "api/v1/quantity.h"

namespace lockstep::controller {
namespace {

using kube::Object;
using Quantities = std::map<std::string, double>;

Quantities ReadQuantities(const Object& quantities) {
  Quantities read;
  if (!quantities.is_object()) return read;
  for (const auto& [name, quantity] : quantities.items()) {
    if (const auto value = api::ParseQuantity(quantity); value.ok()) read[name] = *value;
  }
  return read;
}

void Add(const Quantities& some, Quantities& sum) {
  for (const auto& [name, value] : some) sum[name] += value;
}

void RaiseTo(const Quantities& least, Quantities& values) {
  for (const auto& [name, value] : least) values[name] = std::max(values[name], value);
}

// Returns requests, and limits for resources without a request.
Quantities RequestsOf(const Object& container) {
  const Object& resources = kube::Member(container, "resources");
  Quantities asked = ReadQuantities(kube::Member(resources, "requests"));
  asked.merge(ReadQuantities(kube::Member(resources, "limits")));
  return asked;
}

}  // namespace

// Follows PodRequests of k8s.io/component-helpers, which schedulers use.
std::map<std::string, double> PodRequests(const Object& pod_spec) {
  Quantities sum, sidecars, starting;
  for (const Object& container : kube::ListMember(pod_spec, "containers")) {
    Add(RequestsOf(container), sum);
  }
  for (const Object& container : kube::ListMember(pod_spec, "initContainers")) {
    Quantities beside = RequestsOf(container);
    if (kube::TextMember(container, "restartPolicy") == "Always") {
      Add(beside, sum);
      Add(beside, sidecars);
      beside = sidecars;
    } else {
      Add(sidecars, beside);
    }
    RaiseTo(beside, starting);
  }
  RaiseTo(starting, sum);
  const Object& whole = kube::Member(pod_spec, "resources");
  for (const auto& [name, value] : ReadQuantities(kube::Member(whole, "requests"))) {
    sum[name] = value;
  }
  sum.merge(ReadQuantities(kube::Member(whole, "limits")));  // limits of what nothing requests
  Add(ReadQuantities(kube::Member(pod_spec, "overhead")), sum);
  return sum;
}

}  // namespace lockstep::controller
