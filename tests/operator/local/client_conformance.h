// The contract of every kube::Client, including that of a real API server: instantiate the suite
// with a way to make one. Each test works in its own namespace.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/client.h"

namespace lockstep::local {

// A custom resource with arbitrary content and a status; a real server needs a CRD for it.
inline const kube::Kind kWidgetKind{"example.com", "v1", "Widget", "widgets"};
inline const kube::Kind kConfigKind{"", "v1", "ConfigMap", "configmaps"};

struct ClientUnderTest {
  std::string name;
  std::function<std::unique_ptr<kube::Client>()> make;
  // Returns an empty namespace for a test.
  std::function<std::string(kube::Client& client)> make_namespace = [](kube::Client&) {
    return std::string("default");
  };
  bool collects_garbage = true;  // a bare API server has no garbage collector
};

// Records the events of a watch, on its own thread.
class WatchRecorder {
 public:
  WatchRecorder(kube::Client& client, const kube::Kind& kind, kube::WatchOptions options)
      : thread_([this, &client, kind, options = std::move(options)](std::stop_token stop) {
          const absl::Status end =
              client.Watch(kind, options, std::move(stop), [this](kube::WatchEvent event) {
                const std::lock_guard lock(mutex_);
                events_.push_back(std::move(event));
                changed_.notify_all();
              });
          const std::lock_guard lock(mutex_);
          end_ = end;
          changed_.notify_all();
        }) {}

  // Returns the first `count` events except bookmarks; fewer if the watch ends or takes a minute.
  std::vector<kube::WatchEvent> Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience,
                      [&] { return end_.has_value() || Changes().size() >= count; });
    return Changes();
  }
  absl::Status AwaitEnd() {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, kPatience, [&] { return end_.has_value(); });
    return ended ? *end_ : absl::DeadlineExceededError("the watch goes on");
  }
  bool AwaitBookmark() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return !events_.empty() && events_.back().type == kube::WatchEvent::Type::kBookmark;
    });
  }
  void Stop() { thread_.request_stop(); }

 private:
  std::vector<kube::WatchEvent> Changes() const {
    std::vector<kube::WatchEvent> changes;
    for (const kube::WatchEvent& event : events_) {
      if (event.type != kube::WatchEvent::Type::kBookmark) changes.push_back(event);
    }
    return changes;
  }

  static constexpr std::chrono::seconds kPatience{60};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<kube::WatchEvent> events_;
  std::optional<absl::Status> end_;
  std::jthread thread_;  // last: it uses the members above
};

// Set by name, since each test needs few fields.
inline kube::ListOptions ListOf(const std::string& name_space, const std::string& selector = "",
                                const std::string& continue_token = "") {
  kube::ListOptions options;
  options.namespace_name = name_space;
  options.label_selector = selector;
  options.continue_token = continue_token;
  return options;
}
inline kube::WatchOptions WatchOf(const std::string& name_space, const std::string& version = "",
                                  const std::string& selector = "") {
  kube::WatchOptions options;
  options.namespace_name = name_space;
  options.resource_version = version;
  options.label_selector = selector;
  return options;
}

class ClientConformanceTest : public ::testing::TestWithParam<ClientUnderTest> {
 protected:
  ClientConformanceTest()
      : client_(GetParam().make()), namespace_(GetParam().make_namespace(*client_)) {}

  kube::Object Make(const kube::Kind& kind, const std::string& name) const {
    return {{"apiVersion", kind.ApiVersion()},
            {"kind", kind.kind},
            {"metadata", {{"name", name}, {"namespace", namespace_}}}};
  }
  kube::Object Config(const std::string& name, const std::string& value = "1") const {
    kube::Object object = Make(kConfigKind, name);
    object["data"] = {{"value", value}};
    return object;
  }
  kube::Object Widget(const std::string& name) const {
    kube::Object object = Make(kWidgetKind, name);
    object["spec"] = {{"suspend", false}};
    return object;
  }
  kube::Object Pod(const std::string& name) const {
    kube::Object object = Make(kube::kPodKind, name);
    object["spec"]["containers"] = {{{"name", "main"}, {"image", "busybox"}}};
    return object;
  }
  kube::Object Labelled(kube::Object object, const std::string& key, const std::string& value) {
    object["metadata"]["labels"][key] = value;
    return object;
  }
  kube::Object Owned(kube::Object object, const kube::Object& owner) {
    object["metadata"]["ownerReferences"].push_back({{"apiVersion", owner["apiVersion"]},
                                                     {"kind", owner["kind"]},
                                                     {"name", kube::Name(owner)},
                                                     {"uid", kube::Uid(owner)},
                                                     {"controller", true}});
    return object;
  }
  // Returns the object after a write, whose answer may contain only its metadata, and of an update
  // only the new version.
  kube::Object Written(const kube::Kind& kind, const absl::StatusOr<kube::Object>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return {};
    const auto got = client_->Get(kind, kube::KeyOf(*answer));
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return {};
    EXPECT_EQ(kube::Uid(*got), kube::Uid(*answer));
    EXPECT_EQ(kube::ResourceVersion(*got), kube::ResourceVersion(*answer));
    return *got;
  }
  kube::Object MustCreate(const kube::Kind& kind, const kube::Object& object) {
    const auto made = client_->Create(kind, object);
    const kube::Object got = Written(kind, made);
    if (made.ok()) {
      EXPECT_EQ(kube::Member(got, "metadata"), made->at("metadata"));
    }
    return got;
  }
  kube::Key KeyIn(const std::string& name) const { return {namespace_, name}; }
  std::vector<std::string> Names(const kube::Kind& kind, const std::string& selector) {
    auto page = client_->List(kind, ListOf(namespace_, selector));
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> names;
    if (page.ok()) {
      for (const kube::Object& object : page->items) names.push_back(kube::Name(object));
    }
    return names;
  }

  std::unique_ptr<kube::Client> client_;
  const std::string namespace_;
};

}  // namespace lockstep::local
