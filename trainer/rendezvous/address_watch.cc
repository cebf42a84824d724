#include "trainer/rendezvous/address_watch.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "trainer/rendezvous/service_name.h"

namespace lockstep::train {

namespace {

// Returns getaddrinfo's error, and calls `take` for each address.
int LookUp(const std::string& host, const std::function<void(const addrinfo&)>& take) {
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : AbsoluteServiceName(host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) return error;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) take(*each);
  freeaddrinfo(found);
  return 0;
}

}  // namespace

bool HasAddress(const std::string& host) {
  const int error = LookUp(host, [](const addrinfo&) {});
  // Other errors say nothing about the name.
  return error != EAI_NONAME && error != EAI_NODATA;
}

std::set<std::string> AddressesOf(const std::string& host) {
  std::set<std::string> addresses;
  LookUp(host, [&addresses](const addrinfo& each) {
    std::array<char, NI_MAXHOST> text{};
    const int error = getnameinfo(each.ai_addr, each.ai_addrlen, text.data(), text.size(), nullptr,
                                  0, NI_NUMERICHOST);
    if (error == 0) addresses.insert(text.data());
  });
  return addresses;
}

AddressWatch::AddressWatch(Lookup lookup, Duration every)
    : lookup_(std::move(lookup)),
      every_(every),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void AddressWatch::Watch(std::set<std::string> hosts) {
  const std::lock_guard lock(mutex_);
  if (hosts == hosts_) return;
  hosts_ = std::move(hosts);
  std::set<std::string> without;
  std::ranges::set_intersection(without_, hosts_, std::inserter(without, without.end()));
  without_ = std::move(without);
  changed_.notify_all();
}

std::set<std::string> AddressWatch::WithoutAddress() const {
  const std::lock_guard lock(mutex_);
  return without_;
}

void AddressWatch::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::set<std::string> hosts = hosts_;
    for (const std::string& host : hosts) {
      if (stop.stop_requested()) return;
      lock.unlock();
      const bool found = lookup_(host);
      lock.lock();
      if (found) {
        without_.erase(host);
      } else if (hosts_.contains(host)) {
        without_.insert(host);
      }
    }
    const auto changed = [&] { return hosts_ != hosts; };
    if (hosts.empty()) {
      changed_.wait(lock, stop, changed);
    } else {
      changed_.wait_for(lock, stop, every_, changed);
    }
  }
}

}  // namespace lockstep::train
