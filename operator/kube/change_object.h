// Changes an object that others write too.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

// Returns the whole object, for an update. FailedPrecondition if a part of it is too large to be
// read: an update would write in its place what says so. Other errors are those of Get.
absl::StatusOr<Object> ReadWhole(Client& client, const Kind& kind, const Key& key);

// Reads the object, has `change` change it, and writes it. Writes nothing if `change` leaves it as
// it was. If somebody else writes it in between, reads and changes it again, at most kMostTries
// times in all. Errors: those of ReadWhole and Update; Aborted: the last try met another write,
// too; nothing is written then.
inline constexpr int kMostTries = 5;
absl::Status ChangeObject(Client& client, const Kind& kind, const Key& key,
                          const std::function<void(Object&)>& change);

}  // namespace lockstep::kube
