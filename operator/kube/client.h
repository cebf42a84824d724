// The only road to an API server. RestClient speaks to a real one; local/MemoryClient is one.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

struct Page {
  std::vector<Object> items;
  std::string resource_version;  // of the list: where a watch goes on
  std::string continue_token;    // empty: the last page
  // How many objects of such a size the next page may have; 0: no other number than this one.
  int next_limit = 0;
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Object object;  // kBookmark: only metadata.resourceVersion
};

struct ListOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  int limit = 500;
  std::string continue_token;
  // The members of the objects that are read: others may be left out. Null: all. Outlives the call.
  const FieldMask* keep = nullptr;
};

struct WatchOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  std::string resource_version;
  const FieldMask* keep = nullptr;  // as of ListOptions
};

// Thread-safe. Codes: NotFound (404), AlreadyExists (409 on create), Aborted (409 on write: read
// again), OutOfRange (410: list again), InvalidArgument (422 of validation: the same object will be
// refused again), FailedPrecondition (400, other 422s and more: admission refuses it, or the
// request is not understood), PermissionDenied (403), Unauthenticated (401), ResourceExhausted
// (429), Unavailable (5xx, no connection), DeadlineExceeded. The message names verb, resource and
// object.
class Client {
 public:
  virtual ~Client() = default;
  virtual absl::StatusOr<Object> Get(const Kind& kind, const Key& key) = 0;
  // The object's metadata; the rest may be missing. For what tenants write: many may be asked for
  // at a time, and a spec may take ten times as much memory.
  virtual absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) {
    return Get(kind, key);
  }
  // A list that takes longer than the server remembers its version goes on with what there is by
  // then, and its later pages have a later version. What has changed meanwhile is told by a watch
  // from the version of the first page.
  virtual absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) = 0;
  // Blocks until `stop`, the end of the stream (Ok) or a failure; OutOfRange means: list again.
  virtual absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                             const std::function<void(WatchEvent)>& on_event) = 0;
  // These return the object's metadata as it is now; the rest may be missing.
  virtual absl::StatusOr<Object> Create(const Kind& kind, const Object& object) = 0;
  // The next two need metadata.resourceVersion; Aborted if the object has moved on.
  virtual absl::StatusOr<Object> Update(const Kind& kind, const Object& object) = 0;
  virtual absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) = 0;
  // A non-empty uid is a precondition: Aborted if the object has another one.
  virtual absl::Status Delete(const Kind& kind, const Key& key, const std::string& uid) = 0;
  // The same with a grace period of 0: for a pod whose kubelet will never confirm its end.
  virtual absl::Status ForceDelete(const Kind& kind, const Key& key, const std::string& uid) = 0;
};

}  // namespace lockstep::kube
