// Objects from the API server's JSON.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::kube {

// What stands for a value that is nested deeper than 200 levels: text, where whoever reads the
// object expects another type. One such object must not cost a list or a watch all the others.
inline constexpr char kTooDeep[] = "(nested deeper than 200 levels)";
// What stands for a member of an object, such as its spec, that has more than 100,000 values: one
// takes some 64 bytes of memory, in JSON only two. A status with an index for each of 10,000
// replicas has fewer. And for a member of its metadata, such as its labels, with more than 10,000:
// those are read of each answer of the server's, many at a time.
inline constexpr char kTooMany[] = "(too many values)";

// Leaves out metadata.managedFields, at any depth: nobody here reads it, it is often half of an
// object, and a write without it keeps the server's. A byte that is no UTF-8 reads as '?': an API
// server passes on those that a client gave it in managedFields, and one such object must not cost
// a list or a watch all the others. InvalidArgument: no JSON, or neither an object nor a list.
absl::StatusOr<Object> ParseObject(std::string_view text);

// Of the object, or of each entry of the list, that is the root's member `under` (empty: of the
// root), only what `keep` names; null: all. What is left out is cheap: only its borders are looked
// at. What is too deep or too much is one object's loss, not that of others in the list.
absl::StatusOr<Object> ParseObject(std::string_view text, std::string_view under,
                                   const FieldMask* keep);

}  // namespace lockstep::kube
