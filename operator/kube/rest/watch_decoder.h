// Decodes the body of a watch incrementally: bytes in, events out. Does no I/O. Reads both
// encodings of Kubernetes: lines of JSON, and protobuf messages after their lengths.
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
  // `what` prefixes error messages. Reads only the identity of an object whose event is longer than
  // `longest` bytes, so that one object cannot end the watch of all others: etcd keeps no object
  // above 1.5 MB, but escapes in JSON can turn one byte into six. Reads only what `keep` names
  // (null: everything) of shorter ones; `keep` must outlive the decoder.
  explicit WatchDecoder(std::string what, std::size_t longest = 4U << 20U,
                        const FieldMask* keep = nullptr);

  // `bytes` may end anywhere. Do not call again after an error: OutOfRange if the server no longer
  // has the version (an ERROR event of 410), the code of any other ERROR event, Unavailable for
  // anything that is not a watch event. Skips events of unknown types, as the API requires of
  // clients.
  absl::Status Feed(std::string_view bytes, const std::function<void(WatchEvent)>& on_event);

  // Call at the end of the stream. Unavailable if it broke off within an event.
  absl::Status Finish() const;

 private:
  absl::Status FeedLines(std::string_view bytes, const std::function<void(WatchEvent)>& on_event);
  absl::Status FeedFrames(std::string_view bytes, const std::function<void(WatchEvent)>& on_event);
  absl::Status DecodeLine(std::string_view line, const std::function<void(WatchEvent)>& on_event);
  absl::Status DecodeFrame(std::string_view frame, const std::function<void(WatchEvent)>& on_event);
  void WarnOfLength() const;
  absl::Status HandOver(Object event, const std::function<void(WatchEvent)>& on_event);
  // Consumes a piece of a line that is too long to keep.
  void Scan(std::string_view piece);

  const std::string what_;
  const std::size_t longest_;
  const FieldMask* const keep_;
  std::optional<bool> in_frames_;           // the encoding, once the first byte is known
  std::string partial_;                     // the beginning of a line or frame
  std::optional<IdentityScanner> scanner_;  // of a line that is too long; partial_ is empty then
  std::string length_;                      // of the present frame: four bytes, or their beginning
  std::size_t received_ = 0;                // bytes of the present frame
};

}  // namespace lockstep::kube
