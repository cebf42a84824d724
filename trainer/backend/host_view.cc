#include "trainer/backend/host_view.h"

namespace lockstep::train {

HostView::HostView(Backend& backend, std::span<float> device) : backend_(backend), device_(device) {
  if (backend_.IsHost()) return;
  copy_.resize(device.size());
  backend_.Download(device.data(), copy_.data(), device.size_bytes());
}

void HostView::Commit() {
  if (!backend_.IsHost()) backend_.Upload(copy_.data(), device_.data(), device_.size_bytes());
}

}  // namespace lockstep::train
