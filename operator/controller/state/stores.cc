#include "operator/controller/state/stores.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::controller {

const kube::AnyStore& StoreOf(const Stores& stores, const kube::Kind& kind) {
  const auto found = std::ranges::find(stores.children, kind, &Stores::Children::kind);
  LOCKSTEP_CHECK(found != stores.children.end(), "{} are not followed as children of jobs",
                 kind.plural);
  return *found->store;
}

}  // namespace lockstep::controller
