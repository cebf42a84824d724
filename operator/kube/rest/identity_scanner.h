// What identifies the object of a watch event, read from the event's bytes as they come, none of
// which is kept. Pure; of one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "operator/kube/object.h"

namespace lockstep::kube {

// For events that are too long to be parsed: memory stays the same however long they are. Expects
// JSON as an API server writes it and notices no fault in it; of other bytes it reads nothing, or
// nonsense, but never fails.
class IdentityScanner {
 public:
  // `bytes` may begin and end anywhere.
  void Feed(std::string_view bytes);

  // {"type": …, "object": {"apiVersion": …, "kind": …, "metadata": {…}}} with those of the members
  // name, namespace, uid, resourceVersion and deletionTimestamp that were found. The controlling
  // owner is not read: nothing is made of an object of which no more than this is known.
  Object event() const;

 private:
  void OnByte(char byte);
  void OnTextEnd();
  // The value at the path is wanted.
  bool IsWanted() const;

  static constexpr std::size_t kDeepest = 3;  // event, object, metadata
  std::string path_[kDeepest];                // the member that is read at each level
  std::size_t depth_ = 0;                     // of objects and lists that are open
  std::size_t lists_ = 0;                     // of those, lists and what is in them
  bool in_text_ = false, escaped_ = false, is_name_ = false, kept_ = false;
  std::string text_;
  Object event_ = Object::object();
};

}  // namespace lockstep::kube
