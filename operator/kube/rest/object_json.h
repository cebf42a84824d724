// Parses objects from the API server's JSON.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// Replaces a value that is nested deeper than 200 levels. It is text, where readers expect another
// type. One such object must not make a list or a watch lose all the others.
inline constexpr char kTooDeep[] = "(nested deeper than 200 levels)";
// Replaces a member of an object, such as its spec, that has more than 100,000 values: a value
// takes some 64 bytes of memory, but only two in JSON. A status with an index for each of 10,000
// replicas has fewer. Also replaces a member of its metadata, such as its labels, that has more
// than 10,000: metadata is read from every answer of the server, many at a time.
inline constexpr char kTooMany[] = "(too many values)";
inline constexpr int kMostValues = 100'000;     // of a member of an object, as kTooMany says
inline constexpr int kMostInMetadata = 10'000;  // of a member of its metadata

// Drops metadata.managedFields at any depth: no code here reads it, it is often half of an object,
// and a write without it keeps the server's. Reads an invalid UTF-8 byte as '?': an API server
// passes on those that a client put into managedFields, and one such object must not make a list or
// a watch lose all the others. InvalidArgument: not JSON, or neither an object nor a list.
absl::StatusOr<Object> ParseObject(std::string_view text);

// Keeps only what `keep` names (null: everything) of the root's member `under` (empty: of the
// root), or of each entry if that is a list. Dropped values are cheap: only their bounds are
// parsed. An object that is too deep or too large affects only itself, not the others in the list.
absl::StatusOr<Object> ParseObject(std::string_view text, std::string_view under,
                                   const FieldMask* keep);

}  // namespace lockstep::kube
