// Where the API server keeps what: URL paths and queries. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

// Percent-encodes all but letters, digits and -._~
std::string PercentEncode(const std::string& text);

// "?a=b&c=d", encoded; parameters with empty values are left out, and so is "?" without any.
std::string Query(const std::vector<std::pair<std::string, std::string>>& parameters);

// "/api/v1/namespaces/default/pods"; an empty namespace: of all.
std::string CollectionPath(const Kind& kind, const std::string& namespace_name);
// "/apis/apps/v1/namespaces/default/deployments/web"
std::string ObjectPath(const Kind& kind, const Key& key);

// InvalidArgument if the key's name or namespace is none that the API knows: empty, ".", "..", or
// with a "/" or "%", which would name another path than the object's.
absl::Status CheckKey(const Kind& kind, const Key& key);

// "create pods default/a"; without what is empty.
std::string Describe(const char* verb, const Kind& kind, const Key& key);

}  // namespace lockstep::kube
