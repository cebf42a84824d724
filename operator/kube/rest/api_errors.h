// Translates an API server's error responses into status codes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "operator/kube/object.h"
#include "operator/kube/rest/http_transport.h"

namespace lockstep::kube {

// Returns the code for an HTTP status, as listed in client.h. `reason` and `message` come from the
// metav1.Status. A 422 is InvalidArgument only if validation itself found the object invalid: a
// ValidatingAdmissionPolicy or a webhook, whose refusal may pass, uses the same code and reason.
absl::StatusCode CodeOf(int http_status, std::string_view reason, std::string_view message);

// Converts a metav1.Status, such as that of a watch's ERROR event. `what` prefixes its message, of
// which 16,000 bytes are kept.
absl::Status ErrorOf(const std::string& what, const Object& status);

// Converts an unsuccessful response, whose body is a metav1.Status or anything else. A body that is
// not a Status may come from another program, such as a proxy: then the message names `server`,
// unless that is empty.
absl::Status ErrorOf(const std::string& what, const HttpResponse& response,
                     const std::string& server = "");
// If the server refused a page because the list's version has expired, returns the token that
// continues the list at the present version; nullopt if the error has none.
std::optional<std::string> ContinuationOf(const absl::Status& error);

// Returns true if the status is one of an overloaded server; a webhook may answer with it, too.
bool MayBeOverloaded(const HttpResponse& response);
// Returns true if the server says when to retry.
bool AsksToComeBack(const HttpResponse& response);

}  // namespace lockstep::kube
