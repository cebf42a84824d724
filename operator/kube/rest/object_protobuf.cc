#include "operator/kube/rest/object_protobuf.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/rfc3339.h"
#include "operator/kube/rest/kubernetes.pb.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/valid_utf8.h"

namespace lockstep::kube {
namespace {

namespace pb = google::protobuf;
using Wire = pb::internal::WireFormatLite;
using pb::io::CodedInputStream;

constexpr std::string_view kMagic{"k8s\0", 4};

// The messages of the objects and lists in kubernetes.proto, which are all of apiVersion "v1".
const pb::Descriptor* MessageOfKind(std::string_view kind) {
  static const pb::Descriptor* const kMessages[] = {
      wire::Pod::descriptor(),         wire::PodList::descriptor(), wire::Service::descriptor(),
      wire::ServiceList::descriptor(), wire::Node::descriptor(),    wire::NodeList::descriptor(),
      wire::Status::descriptor()};
  const auto* const found = std::ranges::find(kMessages, kind, &pb::Descriptor::name);
  return found == std::end(kMessages) ? nullptr : *found;
}

// True if the message has everything that `keep` names. Of the messages that a mask can end at,
// kubernetes.proto has only ContainerState with all its fields.
bool Covers(const pb::Descriptor& message, const FieldMask& keep) {
  return std::ranges::all_of(keep.members(), [&](const auto& member) {
    const auto& [name, below] = member;
    const pb::FieldDescriptor* const field = message.FindFieldByName(name);
    if (field == nullptr) return false;
    const pb::Descriptor* const type = field->is_map() ? nullptr : field->message_type();
    if (!below.is_end()) return type != nullptr && Covers(*type, below);
    return type == nullptr || type == wire::Time::descriptor() ||
           type == wire::ContainerState::descriptor();
  });
}

bool HasObjectMeta(const pb::Descriptor& type) {
  const pb::FieldDescriptor* const metadata = type.FindFieldByName("metadata");
  return metadata != nullptr && metadata->message_type() == wire::ObjectMeta::descriptor();
}

// Builds an Object from the wire format, by the descriptors of kubernetes.proto. Fields that these
// or the mask lack are skipped and cost almost nothing. Functions return false if the text is
// malformed, or ends early; what was read until then is kept.
class WireReader {
 public:
  // `keep`: what to keep of each object.
  WireReader(std::string_view text, const FieldMask* keep)
      : in_(reinterpret_cast<const std::uint8_t*>(text.data()), static_cast<int>(text.size())),
        keep_(keep) {}

  // Reads an object, a list or a Status.
  bool Read(const pb::Descriptor& type, Object& into) {
    return ReadMessage(type, ScopeOf(type, nullptr), into);
  }

 private:
  // How to read a message.
  struct Scope {
    const FieldMask* keep = nullptr;  // mask of its fields; null: all
    int most = 0;                     // values of each field; 0: the limit is the enclosing one
  };

  Scope ScopeOf(const pb::Descriptor& type, const FieldMask* below) const {
    if (HasObjectMeta(type)) return {keep_, kMostValues};
    // An object's metadata has limits of its own: without its name and version, an event would end
    // everybody's watch.
    return {below, &type == wire::ObjectMeta::descriptor() ? kMostInMetadata : 0};
  }

  bool ReadMessage(const pb::Descriptor& type, const Scope& scope, Object& into) {
    if (!into.is_object()) into = Object::object();
    int number = 0;
    while (const std::uint32_t tag = in_.ReadTag()) {
      const int next = Wire::GetTagFieldNumber(tag);
      if (scope.most > 0 && next != number) left_ = scope.most;
      number = next;
      const pb::FieldDescriptor* const field = type.FindFieldByNumber(number);
      const FieldMask* below = nullptr;
      if (left_ < 0 || field == nullptr || !Enter(scope, *field, below)) {
        if (!Wire::SkipField(&in_, tag)) return false;
        continue;
      }
      if (!ReadField(tag, *field, below, into)) return false;
      if (left_ < 0 && scope.most > 0) into[field->name()] = kTooMany;
    }
    if (scope.most > 0) left_ = kMostValues;
    return in_.ConsumedEntireMessage();
  }

  // Returns false if the field is dropped.
  static bool Enter(const Scope& scope, const pb::FieldDescriptor& field, const FieldMask*& below) {
    if (scope.keep == nullptr) return true;
    below = scope.keep->Below(field.name());
    if (below == nullptr) return false;
    if (below->is_end()) below = nullptr;
    return true;
  }

  bool ReadField(std::uint32_t tag, const pb::FieldDescriptor& field, const FieldMask* below,
                 Object& into) {
    const auto type = static_cast<Wire::FieldType>(field.type());
    if (Wire::GetTagWireType(tag) != Wire::WireTypeForFieldType(type)) return false;
    if (--left_ < 0) return Wire::SkipField(&in_, tag);
    switch (field.type()) {
      case pb::FieldDescriptor::TYPE_STRING: {
        std::string text;
        if (!ReadText(text)) return false;
        if (!text.empty()) into[field.name()] = std::move(text);
        return true;
      }
      case pb::FieldDescriptor::TYPE_BOOL: {
        std::uint64_t value = 0;
        if (!in_.ReadVarint64(&value)) return false;
        into[field.name()] = value != 0;
        return true;
      }
      case pb::FieldDescriptor::TYPE_INT32:  // sent as 64 bits if it is negative
      case pb::FieldDescriptor::TYPE_INT64: {
        std::uint64_t value = 0;
        if (!in_.ReadVarint64(&value)) return false;
        into[field.name()] = static_cast<std::int64_t>(value);
        return true;
      }
      case pb::FieldDescriptor::TYPE_MESSAGE:
        return Nested([&] { return ReadNested(field, below, into); });
      default:
        return false;  // kubernetes.proto has no such field in an object
    }
  }

  bool ReadNested(const pb::FieldDescriptor& field, const FieldMask* below, Object& into) {
    const pb::Descriptor& type = *field.message_type();
    if (field.is_map()) return ReadEntry(into[field.name()]);
    if (&type == wire::Time::descriptor()) return ReadTime(field, into);
    Object& value = into[field.name()];
    return ReadMessage(type, ScopeOf(type, below), field.is_repeated() ? Appended(value) : value);
  }

  static Object& Appended(Object& list) {
    if (!list.is_array()) list = Object::array();
    return list.emplace_back();
  }

  // A map is a row of messages with a key and a value, each of which may be missing.
  bool ReadEntry(Object& map) {
    if (!map.is_object()) map = Object::object();
    std::string texts[2];
    while (const std::uint32_t tag = in_.ReadTag()) {
      const int number = Wire::GetTagFieldNumber(tag);
      const bool is_text = Wire::GetTagWireType(tag) == Wire::WIRETYPE_LENGTH_DELIMITED;
      const bool ok = is_text && (number == 1 || number == 2) ? ReadText(texts[number - 1])
                                                              : Wire::SkipField(&in_, tag);
      if (!ok) return false;
    }
    map[texts[0]] = std::move(texts[1]);
    return in_.ConsumedEntireMessage();
  }

  // An unset time is an empty message. Times that a Time cannot hold are left out, too.
  bool ReadTime(const pb::FieldDescriptor& field, Object& into) {
    Object value;
    if (!ReadMessage(*wire::Time::descriptor(), {}, value)) return false;
    constexpr std::int64_t kMost =
        std::chrono::duration_cast<std::chrono::seconds>(Time::max().time_since_epoch()).count();
    const std::int64_t seconds = Int64Member(value, "seconds");
    if (!value.contains("seconds") || seconds < 0 || seconds > kMost) return true;
    into[field.name()] = FormatApiTime(Time(std::chrono::seconds(seconds)));
    return true;
  }

  bool ReadText(std::string& text) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || !in_.ReadString(&text, static_cast<int>(length)))
      return false;
    ReplaceInvalidUtf8(text.data(), text.size());
    return true;
  }

  // Calls `read`, which reads to the end of a nested message, or of the text.
  template <typename Read>
  bool Nested(Read read) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length)) return false;
    const bool is_whole = length <= static_cast<std::uint32_t>(in_.BytesUntilLimit());
    const CodedInputStream::Limit outer = in_.PushLimit(static_cast<int>(length));
    const bool ok = read() && is_whole && in_.BytesUntilLimit() == 0;
    in_.PopLimit(outer);
    return ok;
  }

  CodedInputStream in_;
  const FieldMask* const keep_;
  int left_ = kMostValues;  // values that may still be read of the present field of an object
};

// Returns the bytes of a field, or what is there of them; nullopt if there are none.
std::optional<std::string_view> FieldBytes(std::string_view message, int number) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    std::uint32_t length = 0;
    if (Wire::GetTagFieldNumber(tag) != number ||
        Wire::GetTagWireType(tag) != Wire::WIRETYPE_LENGTH_DELIMITED) {
      if (!Wire::SkipField(&in, tag)) return std::nullopt;
    } else if (!in.ReadVarint32(&length)) {
      return std::nullopt;
    } else {
      return message.substr(static_cast<std::size_t>(in.CurrentPosition()), length);
    }
  }
  return std::nullopt;
}

struct Envelope {
  std::string kind, version;
  std::string_view object;
};

// nullopt if `text` is not in this encoding.
std::optional<Envelope> OpenEnvelope(std::string_view text) {
  if (!IsProtobuf(text)) return std::nullopt;
  text.remove_prefix(kMagic.size());
  const auto text_of = [&](int number) {
    std::string value(
        FieldBytes(FieldBytes(text, wire::Unknown::kTypeMetaFieldNumber).value_or(""), number)
            .value_or(""));
    ReplaceInvalidUtf8(value.data(), value.size());
    return value;
  };
  return Envelope{text_of(wire::TypeMeta::kKindFieldNumber),
                  text_of(wire::TypeMeta::kApiVersionFieldNumber),
                  FieldBytes(text, wire::Unknown::kRawFieldNumber).value_or("")};
}

std::string_view EventObject(std::string_view event) {
  const auto extension = FieldBytes(event, wire::WatchEvent::kObjectFieldNumber);
  return FieldBytes(extension.value_or(""), wire::RawExtension::kRawFieldNumber).value_or("");
}

std::string EventTypeOf(std::string_view event) {
  std::string type(FieldBytes(event, wire::WatchEvent::kTypeFieldNumber).value_or(""));
  ReplaceInvalidUtf8(type.data(), type.size());
  return type;
}

}  // namespace

bool HasProtobufOf(const Kind& kind, const FieldMask* keep) {
  if (keep == nullptr || !kind.group.empty() || kind.version != "v1") return false;
  const pb::Descriptor* const message = MessageOfKind(kind.kind);
  return message != nullptr && Covers(*message, *keep);
}

bool IsProtobuf(std::string_view text) {
  return text.starts_with(kMagic);
}

absl::StatusOr<Object> ParseProtobuf(std::string_view text, const FieldMask* keep) {
  const std::optional<Envelope> envelope = OpenEnvelope(text);
  if (!envelope) return absl::InvalidArgumentError("not Kubernetes' protobuf");
  const pb::Descriptor* const type =
      envelope->version == "v1" ? MessageOfKind(envelope->kind) : nullptr;
  if (type == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("protobuf of {} in {}, which is not read in this encoding",
                    JsonText(envelope->kind, 100), JsonText(envelope->version, 100)));
  }
  Object object = Object::object();
  if (!WireReader(envelope->object, keep).Read(*type, object)) {
    return absl::InvalidArgumentError(
        fmt::format("malformed protobuf of a {} ({} bytes)", envelope->kind, text.size()));
  }
  if (!HasObjectMeta(*type)) object["kind"] = envelope->kind;
  return object;
}

absl::StatusOr<Object> ParseProtobufEvent(std::string_view text, const FieldMask* keep) {
  absl::StatusOr<Object> object = ParseProtobuf(EventObject(text), keep);
  if (!object.ok()) return object;
  return Object{{"type", EventTypeOf(text)}, {"object", *std::move(object)}};
}

Object ProtobufIdentity(std::string_view beginning) {
  static const FieldMask kIdentity = {"metadata.name", "metadata.namespace", "metadata.uid",
                                      "metadata.resourceVersion", "metadata.deletionTimestamp"};
  Object event = {{"type", EventTypeOf(beginning)}, {"object", Object::object()}};
  const std::optional<Envelope> envelope = OpenEnvelope(EventObject(beginning));
  const pb::Descriptor* const type = envelope ? MessageOfKind(envelope->kind) : nullptr;
  // Fails where the text ends.
  if (type != nullptr) WireReader(envelope->object, &kIdentity).Read(*type, event["object"]);
  return event;
}

}  // namespace lockstep::kube
