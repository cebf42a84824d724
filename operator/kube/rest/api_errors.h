// What an API server's refusals mean to our callers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "operator/kube/object.h"
#include "operator/kube/rest/http_transport.h"

namespace lockstep::kube {

// The code for an HTTP status as client.h lists them; `reason` and `message` are the Status
// object's. A 422 is InvalidArgument only if validation itself found the object invalid: a
// ValidatingAdmissionPolicy or a webhook, whose refusal may pass, uses the same code and reason.
absl::StatusCode CodeOf(int http_status, std::string_view reason, std::string_view message);

// Of a metav1.Status object: an ERROR event of a watch, say. `what` is put before its message.
absl::Status ErrorOf(const std::string& what, const Object& status);

// Of an answer that is no success; its body is a metav1.Status or anything.
absl::Status ErrorOf(const std::string& what, const HttpResponse& response);
// Of a page's refusal because the server has forgotten the list's version: the token with which it
// goes on at the present one. Nothing: there is none.
std::optional<std::string> ContinuationOf(const absl::Status& error);

// True of an ErrorOf that says that a ResourceQuota of the namespace has no room for the object.
// The API server gives it the code and the reason of a missing right; only its words tell them
// apart.
bool ExceedsQuota(const absl::Status& status);

}  // namespace lockstep::kube
