#include "trainer/backend/settle.h"

#include "base/log.h"

namespace lockstep::train {

void Settle(Backend& backend) noexcept {
  try {
    backend.Synchronize();
  } catch (const DeviceError& error) {
    LogWarning("the device failed while its work was ended", {{"reason", error.what()}});
  }
}

}  // namespace lockstep::train
