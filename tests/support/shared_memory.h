// Memory that a test shares with its forked processes.
#pragma once

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>

#include "base/check.h"
#include "tests/support/get_each.h"
#include "trainer/comm/key_value_store.h"

namespace lockstep::train {

// A T that is created before the fork, in pages that stay shared after it. T must not contain
// pointers to private memory.
template <typename T>
class Shared {
 public:
  Shared() {
    void* memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK(memory != MAP_FAILED, "mmap: {}", std::strerror(errno));
    value_ = new (memory) T();
  }
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

// A KeyValueStore for ranks that are forked processes. Must be created before the fork.
class ForkedStore final : public KeyValueStore {
 public:
  ForkedStore() {
    pthread_mutexattr_t mutex_attributes;
    pthread_mutexattr_init(&mutex_attributes);
    pthread_mutexattr_setpshared(&mutex_attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&table_->mutex, &mutex_attributes);
    pthread_condattr_t changed_attributes;
    pthread_condattr_init(&changed_attributes);
    pthread_condattr_setpshared(&changed_attributes, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setclock(&changed_attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&table_->changed, &changed_attributes);
  }

  absl::Status Set(const std::string& key, const std::string& value) override {
    LOCKSTEP_CHECK(key.size() < sizeof(Entry::key) && value.size() <= sizeof(Entry::value),
                   "forked store: '{}' is too long", key);
    pthread_mutex_lock(&table_->mutex);
    Entry* entry = Find(key);
    if (entry == nullptr) {
      entry = &table_->entries.at(table_->used++);
      key.copy(entry->key, key.size());
    }
    value.copy(entry->value, value.size());
    entry->size = value.size();
    pthread_cond_broadcast(&table_->changed);
    pthread_mutex_unlock(&table_->mutex);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override {
    return GetEach(keys, options, [this](const std::string& key, Duration timeout) {
      return GetOne(key, timeout);
    });
  }
  absl::StatusOr<std::string> GetOne(const std::string& key, Duration timeout) {
    const auto until = std::chrono::steady_clock::now().time_since_epoch() + timeout;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
    const timespec deadline{seconds.count(), (until - seconds).count()};
    pthread_mutex_lock(&table_->mutex);
    const Entry* entry = Find(key);
    for (int rc = 0; entry == nullptr && rc == 0; entry = Find(key))
      rc = pthread_cond_timedwait(&table_->changed, &table_->mutex, &deadline);
    const bool found = entry != nullptr;
    const std::string value = found ? std::string(entry->value, entry->size) : "";
    pthread_mutex_unlock(&table_->mutex);
    if (!found) return absl::DeadlineExceededError(fmt::format("store: no key '{}' in time", key));
    return value;
  }

 private:
  struct Entry {
    char key[48] = {};
    char value[2048] = {};
    std::size_t size = 0;
  };
  struct Table {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    std::array<Entry, 64> entries;
    std::size_t used = 0;
  };

  Entry* Find(const std::string& key) {
    for (std::size_t i = 0; i < table_->used; ++i)
      if (key == table_->entries[i].key) return &table_->entries[i];
    return nullptr;
  }

  Shared<Table> table_;
};

}  // namespace lockstep::train
