// Why a device cannot be used, where no restart in the same place changes that.
#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

// The device, or a library that it needs, is not there, and would not be in another place.
class DeviceMissing : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// This build has nothing that runs on the device.
class NotBuiltForDevice : public DeviceMissing {
 public:
  using DeviceMissing::DeviceMissing;
};

// The device has been there: the pod was given it. It has failed, or the container has lost access
// to it; a new pod may get another.
class DeviceGone : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace lockstep::train
