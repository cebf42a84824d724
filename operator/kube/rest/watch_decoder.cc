#include "operator/kube/rest/watch_decoder.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/kube/rest/api_errors.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/object_protobuf.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
// Enough for the type of an event, and for the name, version and time of deletion of its object.
constexpr std::size_t kIdentityBytes = 4096;

std::size_t FrameLength(const std::string& bytes) {
  std::uint32_t big_endian = 0;
  std::memcpy(&big_endian, bytes.data(), kLengthBytes);
  return ntohl(big_endian);
}

std::optional<WatchEvent::Type> TypeOf(const std::string& type) {
  if (type == "ADDED") return WatchEvent::Type::kAdded;
  if (type == "MODIFIED") return WatchEvent::Type::kModified;
  if (type == "DELETED") return WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

}  // namespace

WatchDecoder::WatchDecoder(std::string what, std::size_t longest, const FieldMask* keep)
    : what_(std::move(what)), longest_(longest), keep_(keep) {}

absl::Status WatchDecoder::Feed(std::string_view bytes,
                                const std::function<void(WatchEvent)>& on_event) {
  if (bytes.empty()) return absl::OkStatus();
  // A frame begins with its length, which is below 2^24; JSON has no byte of zero.
  if (!in_frames_) in_frames_ = bytes.front() == '\0';
  return *in_frames_ ? FeedFrames(bytes, on_event) : FeedLines(bytes, on_event);
}

absl::Status WatchDecoder::FeedLines(std::string_view bytes,
                                     const std::function<void(WatchEvent)>& on_event) {
  while (true) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view piece = whole ? bytes.substr(0, end) : bytes;
    if (scanner_ || partial_.size() + piece.size() > longest_) {
      Scan(piece);
    } else if (!whole || !partial_.empty()) {
      partial_ += piece;
    }
    if (!whole) return absl::OkStatus();
    if (scanner_) {
      WarnOfLength();
      const IdentityScanner scanned = *std::exchange(scanner_, std::nullopt);
      LOCKSTEP_RETURN_IF_ERROR(HandOver(scanned.event(), on_event));
    } else if (partial_.empty()) {
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(piece, on_event));
    } else {
      const std::string line = std::exchange(partial_, {});
      LOCKSTEP_RETURN_IF_ERROR(DecodeLine(line, on_event));
    }
    bytes.remove_prefix(end + 1);
  }
}

absl::Status WatchDecoder::FeedFrames(std::string_view bytes,
                                      const std::function<void(WatchEvent)>& on_event) {
  while (!bytes.empty()) {
    if (length_.size() < kLengthBytes) {
      length_ += bytes.front();
      bytes.remove_prefix(1);
      if (length_.size() < kLengthBytes) continue;
    }
    const std::size_t length = FrameLength(length_);
    const std::size_t kept = length > longest_ ? kIdentityBytes : length;
    const std::string_view piece = bytes.substr(0, length - received_);
    partial_ += piece.substr(0, kept - std::min(kept, partial_.size()));
    received_ += piece.size();
    bytes.remove_prefix(piece.size());
    if (received_ < length) break;
    if (length > longest_) WarnOfLength();
    const std::string frame = std::exchange(partial_, {});
    length_.clear();
    received_ = 0;
    LOCKSTEP_RETURN_IF_ERROR(length > longest_ ? HandOver(ProtobufIdentity(frame), on_event)
                                               : DecodeFrame(frame, on_event));
  }
  return absl::OkStatus();
}

void WatchDecoder::WarnOfLength() const {
  LogWarning("an event is too long; only the object's identity is read of it",
             {{"watch", what_}, {"limit", longest_}});
}

void WatchDecoder::Scan(std::string_view piece) {
  if (!scanner_) {
    scanner_.emplace();
    scanner_->Feed(partial_);
    std::string().swap(partial_);
  }
  scanner_->Feed(piece);
}

absl::Status WatchDecoder::Finish() const {
  if (partial_.empty() && !scanner_ && length_.empty()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: the stream ended within an event", what_));
}

absl::Status WatchDecoder::DecodeLine(std::string_view line,
                                      const std::function<void(WatchEvent)>& on_event) {
  if (line.find_first_not_of(" \r\t") == std::string_view::npos) return absl::OkStatus();
  absl::StatusOr<Object> event = ParseObject(line, "object", keep_);
  if (!event.ok()) {
    return absl::UnavailableError(
        fmt::format("{}: an event is {}", what_, std::string(event.status().message())));
  }
  if (TextMember(*event, "type") == "ERROR") {
    // The object of an ERROR event is a Status, which `keep` does not cover.
    event = ParseObject(line);
    return ErrorOf(what_, event.ok() ? Member(*event, "object") : Object());
  }
  return HandOver(*std::move(event), on_event);
}

absl::Status WatchDecoder::DecodeFrame(std::string_view frame,
                                       const std::function<void(WatchEvent)>& on_event) {
  absl::StatusOr<Object> event = ParseProtobufEvent(frame, keep_);
  if (!event.ok()) {
    return absl::UnavailableError(
        fmt::format("{}: an event is {}", what_, std::string(event.status().message())));
  }
  if (TextMember(*event, "type") == "ERROR") return ErrorOf(what_, Member(*event, "object"));
  return HandOver(*std::move(event), on_event);
}

absl::Status WatchDecoder::HandOver(Object event, const std::function<void(WatchEvent)>& on_event) {
  const std::string type = TextMember(event, "type");
  if (type.empty() || !Member(event, "object").is_object()) {
    return absl::UnavailableError(
        fmt::format("{}: an event has no type or no object: {}", what_, JsonText(event, 200)));
  }
  const std::optional<WatchEvent::Type> known = TypeOf(type);
  if (!known) {
    LogWarning("a watch event of unknown type is passed over", {{"watch", what_}, {"type", type}});
    return absl::OkStatus();
  }
  Object& object = event["object"];
  if (ResourceVersion(object).empty()) {
    return absl::UnavailableError(
        fmt::format("{}: an event's object has no metadata.resourceVersion", what_));
  }
  on_event({*known, std::move(object)});
  return absl::OkStatus();
}

}  // namespace lockstep::kube
