#include "operator/controller/state/counted_quantities.h"

#include <cmath>

#include "api/v1/quantity.h"

namespace lockstep::controller {

kube::Object CountedQuantities(const kube::Object& quantities) {
  if (!quantities.is_object()) return quantities;
  kube::Object counted;
  for (const auto& [resource, quantity] : quantities.items()) {
    const auto number = api::ParseQuantity(quantity);
    const bool is_valid = number.ok() && *number >= 0 && std::isfinite(*number);
    counted[resource] = is_valid ? kube::Object(api::FormatQuantity(*number)) : quantity;
  }
  return counted;
}

}  // namespace lockstep::controller
