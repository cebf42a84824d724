#include "operator/kube/informer.h"

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "api/base/log.h"
#include "api/base/status.h"

namespace lockstep::kube {

Informer::Informer(Client& client, Kind kind, InformerOptions options)
    : client_(client), kind_(std::move(kind)), options_(std::move(options)) {}

Informer::~Informer() {
  Stop();
}

void Informer::SetHandlers(InformerHandlers handlers) {
  handlers_ = std::move(handlers);
}

void Informer::Start() {
  thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

void Informer::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

bool Informer::WaitForSync() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return synced_ || stopped_; });
  return synced_;
}

void Informer::Run(std::stop_token stop) {
  std::mt19937 random{std::random_device{}()};
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  int failures = 0;
  while (!stop.stop_requested()) {
    const bool listing = must_list_;
    saw_event_ = false;
    const absl::Status status = listing ? ListAll(stop) : WatchOnce(stop);
    if (stop.stop_requested()) return;
    if (status.ok()) failures = 0;
    if (status.ok() && (listing || saw_event_)) continue;
    // The server has forgotten our version: the store is rebuilt from a list.
    if (absl::IsOutOfRange(status)) must_list_ = true;
    if (!status.ok() && !absl::IsOutOfRange(status)) {
      LogWarning("informer failed; it is tried again", {{"kind", kind_.kind},
                                                        {"call", listing ? "list" : "watch"},
                                                        {"error", status.ToString()}});
    }
    if (!status.ok()) failures = saw_event_ ? 1 : failures + 1;
    // A watch that ends without an event is normal, but must not become a busy loop.
    const Duration delay = BackoffDelay(options_.backoff, failures, uniform(random));
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, delay, [] { return false; });
  }
}

absl::Status Informer::ListAll(std::stop_token stop) {
  ListOptions list{.namespace_name = options_.namespace_name,
                   .label_selector = options_.label_selector,
                   .limit = options_.page_size,
                   .continue_token = "",
                   .skip = &options_.skip};
  std::vector<ObjectPtr> objects;
  std::string version;
  do {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    LOCKSTEP_ASSIGN_OR_RETURN(Page page, client_.List(kind_, list));
    for (Object& item : page.items) objects.push_back(Trim(std::move(item)));
    version = std::move(page.resource_version);
    list.continue_token = std::move(page.continue_token);
  } while (!list.continue_token.empty());
  Replace(objects, version);
  must_list_ = false;
  {
    const std::lock_guard lock(mutex_);
    synced_ = true;
  }
  wake_.notify_all();
  return absl::OkStatus();
}

absl::Status Informer::WatchOnce(std::stop_token stop) {
  const WatchOptions watch{.namespace_name = options_.namespace_name,
                           .label_selector = options_.label_selector,
                           .resource_version = store_.resource_version(),
                           .skip = &options_.skip};
  return client_.Watch(kind_, watch, std::move(stop),
                       [this](WatchEvent event) { OnEvent(std::move(event)); });
}

void Informer::Replace(const std::vector<ObjectPtr>& objects, const std::string& version) {
  std::set<Key> listed;
  for (const ObjectPtr& object : objects) listed.insert(KeyOf(*object));
  for (const ObjectPtr& known : store_.List()) {
    if (!listed.contains(KeyOf(*known))) Erase(KeyOf(*known));
  }
  // The version comes last: a store that claims a version has all that is in it.
  for (const ObjectPtr& object : objects) Upsert(object);
  store_.SetResourceVersion(version);
}

void Informer::OnEvent(WatchEvent event) {
  const std::string version = ResourceVersion(event.object);
  // Versions of one watch only grow; one that does not was seen before (etcd #15271).
  if (!IsOlderVersion(store_.resource_version(), version)) return;
  saw_event_ = true;
  switch (event.type) {
    case WatchEvent::Type::kBookmark:
      break;
    case WatchEvent::Type::kDeleted:
      Erase(KeyOf(event.object));
      break;
    case WatchEvent::Type::kAdded:
    case WatchEvent::Type::kModified:
      Upsert(Trim(std::move(event.object)));
      break;
  }
  store_.SetResourceVersion(version);
}

void Informer::Upsert(const ObjectPtr& object) {
  const ObjectPtr before = store_.Put(object);
  if (before && Uid(*before) != Uid(*object)) {  // deleted and made again, unseen
    if (handlers_.on_delete) handlers_.on_delete(*before);
    if (handlers_.on_add) handlers_.on_add(*object);
  } else if (before) {
    if (ResourceVersion(*before) == ResourceVersion(*object)) return;
    if (handlers_.on_update) handlers_.on_update(*before, *object);
  } else if (handlers_.on_add) {
    handlers_.on_add(*object);
  }
}

void Informer::Erase(const Key& key) {
  const ObjectPtr before = store_.Remove(key);
  if (before && handlers_.on_delete) handlers_.on_delete(*before);
}

ObjectPtr Informer::Trim(Object object) const {
  if (options_.transform) options_.transform(object);
  return std::make_shared<const Object>(std::move(object));
}

}  // namespace lockstep::kube
