// Parses objects from the API server's protobuf encoding. It costs the server less than JSON does,
// and the server encodes an event once for all clients that watch in this encoding. Pure.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// True if kubernetes.proto has all fields of this kind's objects that `keep` names, so that they
// may be asked for in this encoding. False if `keep` is null, which names all fields there are.
bool HasProtobufOf(const Kind& kind, const FieldMask* keep);

// True if `text` begins as an object in this encoding does, and as no JSON does.
bool IsProtobuf(std::string_view text);

// Parses an object of which it keeps only what `keep` names (null: everything), a list of such
// objects, or a Status, of both of which it keeps everything else. Returns what ParseObject returns
// for the JSON, except: fields that kubernetes.proto lacks are missing, and so are empty texts
// (not those of labels and annotations), unset times, and an object's apiVersion and kind; numbers
// and bools that JSON omits because they are zero may be present. InvalidArgument: not this
// encoding, or of a kind that kubernetes.proto lacks.
absl::StatusOr<Object> ParseProtobuf(std::string_view text, const FieldMask* keep);

// Parses a metav1.WatchEvent as {"type": …, "object": …}; `keep` as in ParseProtobuf.
absl::StatusOr<Object> ParseProtobufEvent(std::string_view text, const FieldMask* keep);

// Reads the first bytes of an event that is too long to parse: returns what
// IdentityScanner::event() returns for JSON, without apiVersion and kind. A server writes an
// object's name, version and time of deletion before everything that can be long.
Object ProtobufIdentity(std::string_view beginning);

}  // namespace lockstep::kube
