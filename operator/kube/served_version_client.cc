#include "operator/kube/served_version_client.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace lockstep::kube {
namespace {

absl::Status EndOf(const absl::Status& answer) {
  return answer;
}
template <typename T>
absl::Status EndOf(const absl::StatusOr<T>& answer) {
  return answer.status();
}

Kind In(Kind kind, const std::string& version) {
  kind.version = version;
  return kind;
}

}  // namespace

ServedVersionClient::ServedVersionClient(Client& client, std::string group,
                                         std::vector<std::string> versions, Convert convert)
    : client_(client),
      group_(std::move(group)),
      versions_(std::move(versions)),
      convert_(std::move(convert)) {}

// The server answers 404 for an object that does not exist, too. Then it does so in every version.
template <typename Call>
auto ServedVersionClient::InServedVersion(const Kind& kind, const Call& call) {
  if (kind.group != group_) return call(kind);
  const std::size_t first = served_;
  auto answer = call(In(kind, versions_[first]));
  if (!absl::IsNotFound(EndOf(answer))) return answer;
  for (std::size_t i = 0; i < versions_.size(); ++i) {
    if (i == first) continue;
    auto other = call(In(kind, versions_[i]));
    if (absl::IsNotFound(EndOf(other))) continue;
    if (EndOf(other).ok()) Take(i);
    return other;
  }
  return answer;
}

template <typename Call>
absl::StatusOr<Object> ServedVersionClient::InItsVersion(const Kind& kind, const Object& object,
                                                         const Call& call) {
  if (kind.group != group_) return call(kind);
  const std::string read_in = TextMember(object, "apiVersion");
  const std::string version = read_in.substr(read_in.find('/') + 1);
  absl::StatusOr<Object> answer = call(In(kind, version));
  // Callers take NotFound for the object's end.
  if (!absl::IsNotFound(answer.status()) || !GetMetadata(kind, KeyOf(object)).ok()) return answer;
  return absl::UnavailableError(
      fmt::format("{} {}: it was read as {}, which is no longer served: {}", kind.plural,
                  Name(object), read_in, std::string(answer.status().message())));
}

void ServedVersionClient::Take(std::size_t version) {
  if (served_.exchange(version) == version) return;
  LogInfo("the API server serves another version",
          {{"group", group_}, {"version", versions_[version]}});
}

absl::StatusOr<Object> ServedVersionClient::Get(const Kind& kind, const Key& key) {
  return InServedVersion(kind, [&](const Kind& served) { return client_.Get(served, key); });
}

absl::StatusOr<Object> ServedVersionClient::GetMetadata(const Kind& kind, const Key& key) {
  return InServedVersion(kind,
                         [&](const Kind& served) { return client_.GetMetadata(served, key); });
}

absl::StatusOr<Page> ServedVersionClient::List(const Kind& kind, const ListOptions& options) {
  return InServedVersion(kind, [&](const Kind& served) { return client_.List(served, options); });
}

// Only what is refused at once is NotFound, so no event arrives twice. All versions of an object
// have the same resourceVersion.
absl::Status ServedVersionClient::Watch(const Kind& kind, const WatchOptions& options,
                                        std::stop_token stop,
                                        const std::function<void(WatchEvent)>& on_event) {
  return InServedVersion(
      kind, [&](const Kind& served) { return client_.Watch(served, options, stop, on_event); });
}

absl::StatusOr<Object> ServedVersionClient::Create(const Kind& kind, const Object& object) {
  return InServedVersion(kind, [&](const Kind& served) {
    if (served == kind) return client_.Create(served, object);
    Object converted = convert_(object, served);
    converted["apiVersion"] = served.ApiVersion();
    return client_.Create(served, converted);
  });
}

absl::StatusOr<Object> ServedVersionClient::Update(const Kind& kind, const Object& object) {
  return InItsVersion(kind, object, [&](const Kind& its) { return client_.Update(its, object); });
}

absl::StatusOr<Object> ServedVersionClient::UpdateStatus(const Kind& kind, const Object& object) {
  return InItsVersion(kind, object,
                      [&](const Kind& its) { return client_.UpdateStatus(its, object); });
}

absl::Status ServedVersionClient::Delete(const Kind& kind, const Key& key,
                                         const Preconditions& expected) {
  return InServedVersion(kind,
                         [&](const Kind& served) { return client_.Delete(served, key, expected); });
}

absl::Status ServedVersionClient::ForceDelete(const Kind& kind, const Key& key,
                                              const Preconditions& expected) {
  return InServedVersion(
      kind, [&](const Kind& served) { return client_.ForceDelete(served, key, expected); });
}

}  // namespace lockstep::kube
