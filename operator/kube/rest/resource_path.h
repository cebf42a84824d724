// URL paths and queries of API resources. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

// Percent-encodes everything but letters, digits and -._~
std::string PercentEncode(const std::string& text);

// Returns "?a=b&c=d", encoded, without parameters whose values are empty; "" if none is left.
std::string Query(const std::vector<std::pair<std::string, std::string>>& parameters);

// "/api/v1/namespaces/default/pods"; an empty namespace stands for all.
std::string CollectionPath(const Kind& kind, const std::string& namespace_name);
// "/apis/apps/v1/namespaces/default/deployments/web"
std::string ObjectPath(const Kind& kind, const Key& key);

// InvalidArgument if the key's name, or its namespace if the kind has one, is invalid: empty, ".",
// "..", or containing "/" or "%", which would address a different path than the object's.
absl::Status CheckKey(const Kind& kind, const Key& key);

// Returns "create pods default/a", without empty parts.
std::string Describe(const char* verb, const Kind& kind, const Key& key);

}  // namespace lockstep::kube
