// Abstract client of an API server. RestClient talks to a real server; local/MemoryClient is an
// in-memory one.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

struct Page {
  std::vector<Object> items;
  std::string resource_version;  // where a watch of the listed objects starts
  std::string continue_token;    // empty: this is the last page
  // Suggested `limit` for the next page, given the size of these objects; 0: keep the present one.
  int next_limit = 0;
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Object object;  // for kBookmark, only metadata.resourceVersion is set
};

struct ListOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  int limit = 500;
  std::string continue_token;
  // The members that the caller reads; others may be left out. Null: all. Must outlive the call.
  const FieldMask* keep = nullptr;
};

struct WatchOptions {
  std::string namespace_name;  // empty: all namespaces
  std::string label_selector;
  std::string resource_version;
  const FieldMask* keep = nullptr;  // as in ListOptions
  // The server ends the watch within this time, or within the client's own if that is shorter.
  // Zero: the client's own.
  Duration timeout = Duration::zero();
};

// What an object must be for a call to delete it; an empty member says nothing.
struct Preconditions {
  std::string uid;
  std::string resource_version;  // the object has not changed since
};

// Thread-safe. Status codes: NotFound (404), AlreadyExists (409 on create), Aborted (409 on other
// writes: read the object again), OutOfRange (410: list again), InvalidArgument (422 from
// validation: the same object is always refused), FailedPrecondition (400, other 422s and more:
// admission refuses the object, or the server does not understand the request), PermissionDenied
// (403), Unauthenticated (401), ResourceExhausted (429), Unavailable (5xx or no connection),
// DeadlineExceeded. IsOverloaded (server_errors.h) tells of errors whether the server is
// overloaded. The message names the verb, the resource and the object.
class Client {
 public:
  virtual ~Client() = default;
  virtual absl::StatusOr<Object> Get(const Kind& kind, const Key& key) = 0;
  // Returns the object's metadata; the rest may be missing. For objects that tenants write: a
  // caller may read many at a time, and a full spec can take ten times as much memory.
  virtual absl::StatusOr<Object> GetMetadata(const Kind& kind, const Key& key) {
    return Get(kind, key);
  }
  // Returns one page. If the continue token expires on the server, the list continues at the
  // server's present version, so later pages may have a later version. A watch from the version of
  // the first page reports what changed in between.
  virtual absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) = 0;
  // Blocks until `stop` or the end of the stream (Ok) or a failure; stream_end.h tells how far a
  // watch that fails had come. OutOfRange means: list again.
  virtual absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                             const std::function<void(WatchEvent)>& on_event) = 0;
  // Returns the object's current metadata; the rest may be missing.
  virtual absl::StatusOr<Object> Create(const Kind& kind, const Object& object) = 0;
  // Update and UpdateStatus require metadata.resourceVersion. Aborted if the object has changed
  // since. They return the metadata with the object's current resourceVersion; its other members
  // may be as sent, and the rest may be missing.
  virtual absl::StatusOr<Object> Update(const Kind& kind, const Object& object) = 0;
  virtual absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) = 0;
  // Aborted if the object is not what is expected.
  virtual absl::Status Delete(const Kind& kind, const Key& key, const Preconditions& expected) = 0;
  // Deletes with a grace period of 0: for a pod whose kubelet will never confirm its termination.
  virtual absl::Status ForceDelete(const Kind& kind, const Key& key,
                                   const Preconditions& expected) = 0;
};

}  // namespace lockstep::kube
