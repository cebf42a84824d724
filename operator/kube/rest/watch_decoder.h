// Decodes the body of a watch incrementally: bytes in, events out. Does no I/O.
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
  // `what` prefixes error messages. Of a line, which holds one event, that is longer than
  // `longest_line` bytes, only the object's identity is read, so that one object cannot end the
  // watch of all others: etcd keeps no object above 1.5 MB, but escapes can turn one byte into six.
  // Of other objects, reads only what `keep` names (null: everything); it must outlive the decoder.
  explicit WatchDecoder(std::string what, std::size_t longest_line = 4U << 20U,
                        const FieldMask* keep = nullptr);

  // `bytes` may end anywhere. Do not call again after an error: OutOfRange if the server no longer
  // has the version (an ERROR event of 410), the code of any other ERROR event, Unavailable for
  // anything that is not a watch event. Skips events of unknown types, as the API requires of
  // clients.
  absl::Status Feed(std::string_view bytes, const std::function<void(WatchEvent)>& on_event);

  // Call at the end of the stream. Unavailable if it broke off within an event.
  absl::Status Finish() const;

 private:
  absl::Status DecodeLine(std::string_view line, const std::function<void(WatchEvent)>& on_event);
  absl::Status HandOver(Object event, const std::function<void(WatchEvent)>& on_event);
  // Consumes a piece of a line that is too long to keep.
  void Scan(std::string_view piece);

  const std::string what_;
  const std::size_t longest_line_;
  const FieldMask* const keep_;
  std::string partial_;                     // the beginning of a line
  std::optional<IdentityScanner> scanner_;  // of a line that is too long; partial_ is empty then
};

}  // namespace lockstep::kube
