// Why a device cannot be used, where no restart changes that.
#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

// The device, or a library that it needs, is not there.
class DeviceMissing : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// This build has nothing that runs on the device.
class NotBuiltForDevice : public DeviceMissing {
 public:
  using DeviceMissing::DeviceMissing;
};

}  // namespace lockstep::train
