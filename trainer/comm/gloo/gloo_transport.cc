#include "trainer/comm/gloo/gloo_transport.h"

#include <gloo/common/error.h>

namespace lockstep::train {

std::unique_ptr<gloo::transport::Pair>& AbortableContext::createPair(int rank) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_.empty()) throw gloo::IoException(abort_reason_);
  return Context::createPair(rank);
}

void AbortableContext::Abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  abort_reason_ = reason;
  signalException(reason);  // of pairs that have failed already: nothing
}

std::shared_ptr<AbortableDevice> AbortableDevice::Create(const std::string& address) {
  return std::make_shared<AbortableDevice>(
      gloo::transport::tcp::CreateDeviceAttr(gloo::transport::tcp::attr(address.c_str())));
}

std::shared_ptr<gloo::transport::Context> AbortableDevice::createContext(int rank, int size) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_.empty()) throw gloo::IoException(abort_reason_);
  auto context = std::make_shared<AbortableContext>(
      std::static_pointer_cast<gloo::transport::tcp::Device>(shared_from_this()), rank, size);
  context_ = context;
  return context;
}

void AbortableDevice::Abort(const std::string& reason) {
  std::shared_ptr<AbortableContext> context;
  {
    const std::lock_guard lock(mutex_);
    abort_reason_ = reason;
    context = context_.lock();
  }
  if (context) context->Abort(reason);
}

}  // namespace lockstep::train
