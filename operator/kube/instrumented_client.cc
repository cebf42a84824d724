#include "operator/kube/instrumented_client.h"

#include <utility>

namespace lockstep::kube {
namespace {

absl::Status StatusOf(const absl::Status& status) {
  return status;
}

template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

const char* VerbName(Verb verb) {
  switch (verb) {
    case Verb::kGet:
      return "get";
    case Verb::kList:
      return "list";
    case Verb::kWatch:
      return "watch";
    case Verb::kCreate:
      return "create";
    case Verb::kUpdate:
      return "update";
    case Verb::kUpdateStatus:
      return "update-status";
    case Verb::kDelete:
      return "delete";
  }
  return "unknown";
}

InstrumentedClient::InstrumentedClient(Client& client, const Clock& clock,
                                       std::vector<ClientObserver*> observers)
    : client_(client), clock_(clock), observers_(std::move(observers)) {}

template <typename Call>
auto InstrumentedClient::Observed(Verb verb, const Kind& kind, const std::string& namespace_name,
                                  const Call& call) {
  const SteadyTime start = clock_.SteadyNow();
  auto result = call();
  Tell(verb, kind, namespace_name, StatusOf(result), start);
  return result;
}

void InstrumentedClient::Tell(Verb verb, const Kind& kind, const std::string& namespace_name,
                              const absl::Status& result, SteadyTime start) const {
  const Duration took = clock_.SteadyNow() - start;
  for (ClientObserver* observer : observers_) {
    observer->OnCall(verb, kind, namespace_name, result, took);
  }
}

absl::StatusOr<Object> InstrumentedClient::Get(const Kind& kind, const Key& key) {
  return Observed(Verb::kGet, kind, key.namespace_name, [&] { return client_.Get(kind, key); });
}

absl::StatusOr<Object> InstrumentedClient::GetMetadata(const Kind& kind, const Key& key) {
  return Observed(Verb::kGet, kind, key.namespace_name,
                  [&] { return client_.GetMetadata(kind, key); });
}

absl::StatusOr<Page> InstrumentedClient::List(const Kind& kind, const ListOptions& options) {
  return Observed(Verb::kList, kind, options.namespace_name,
                  [&] { return client_.List(kind, options); });
}

absl::Status InstrumentedClient::Watch(const Kind& kind, const WatchOptions& options,
                                       std::stop_token stop,
                                       const std::function<void(WatchEvent)>& on_event) {
  for (ClientObserver* observer : observers_) {
    observer->OnWatchStart(kind, options.namespace_name);
  }
  const SteadyTime start = clock_.SteadyNow();
  absl::Status end = client_.Watch(kind, options, stop, [&](WatchEvent event) {
    for (ClientObserver* observer : observers_) {
      observer->OnWatchEvent(kind, options.namespace_name);
    }
    on_event(std::move(event));
  });
  Tell(Verb::kWatch, kind, options.namespace_name,
       stop.stop_requested() ? absl::CancelledError("stopped") : end, start);
  return end;
}

absl::StatusOr<Object> InstrumentedClient::Create(const Kind& kind, const Object& object) {
  return Observed(Verb::kCreate, kind, Namespace(object),
                  [&] { return client_.Create(kind, object); });
}

absl::StatusOr<Object> InstrumentedClient::Update(const Kind& kind, const Object& object) {
  return Observed(Verb::kUpdate, kind, Namespace(object),
                  [&] { return client_.Update(kind, object); });
}

absl::StatusOr<Object> InstrumentedClient::UpdateStatus(const Kind& kind, const Object& object) {
  return Observed(Verb::kUpdateStatus, kind, Namespace(object),
                  [&] { return client_.UpdateStatus(kind, object); });
}

absl::Status InstrumentedClient::Delete(const Kind& kind, const Key& key,
                                        const Preconditions& expected) {
  return Observed(Verb::kDelete, kind, key.namespace_name,
                  [&] { return client_.Delete(kind, key, expected); });
}

absl::Status InstrumentedClient::ForceDelete(const Kind& kind, const Key& key,
                                             const Preconditions& expected) {
  return Observed(Verb::kDelete, kind, key.namespace_name,
                  [&] { return client_.ForceDelete(kind, key, expected); });
}

}  // namespace lockstep::kube
