// Objects from the API server's JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// Leaves out metadata.managedFields, at any depth: nobody here reads it, it is often half of an
// object, and a write without it keeps the server's. Arrays that are members named in `unneeded`
// become 0. InvalidArgument: no JSON, or nested deeper than 200 levels.
absl::StatusOr<Object> ParseObject(std::string_view text,
                                   const std::vector<std::string>& unneeded = {});

}  // namespace lockstep::kube
