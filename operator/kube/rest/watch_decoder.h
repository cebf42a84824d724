// The body of a watch as it comes: bytes in, events out. Knows no sockets.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "operator/kube/client.h"
#include "operator/kube/rest/identity_scanner.h"

namespace lockstep::kube {

class WatchDecoder {
 public:
  // `what` stands before the messages of errors. Of a line, which holds one event, that is longer
  // than `longest_line` bytes only the object's identity is read, so that nobody's object ends the
  // watch of all the others: etcd keeps no object above 1.5 MB, but escapes make a byte six.
  // Of other objects what `keep` names is read, null: all; it outlives the decoder.
  explicit WatchDecoder(std::string what, std::size_t longest_line = 4U << 20U,
                        const FieldMask* keep = nullptr);

  // `bytes` may end anywhere. An error is the end: OutOfRange when the server has forgotten the
  // version (an ERROR event of 410), the code of another ERROR event, Unavailable for what is no
  // watch event at all. Events of unknown types are passed over, as the API asks of clients.
  absl::Status Feed(std::string_view bytes, const std::function<void(WatchEvent)>& on_event);

  // At the end of the stream: Unavailable if it broke off within an event.
  absl::Status Finish() const;

 private:
  absl::Status DecodeLine(std::string_view line, const std::function<void(WatchEvent)>& on_event);
  absl::Status HandOver(Object event, const std::function<void(WatchEvent)>& on_event);
  // Takes in a piece of a line that is too long to be kept.
  void Scan(std::string_view piece);

  const std::string what_;
  const std::size_t longest_line_;
  const FieldMask* const keep_;
  std::string partial_;                     // a line's beginning
  std::optional<IdentityScanner> scanner_;  // of a line that is too long; partial_ is empty then
};

}  // namespace lockstep::kube
