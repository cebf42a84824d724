// Errors of a device that do not go away when the process is restarted in the same pod.
#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

// The device, or a library that it needs, does not exist, and a new pod would not have it either.
class DeviceMissing : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// This build has nothing that runs on the device.
class NotBuiltForDevice : public DeviceMissing {
 public:
  using DeviceMissing::DeviceMissing;
};

// The pod was given the device, but it has failed, or the container has lost access to it. A new
// pod may get another one.
class DeviceGone : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace lockstep::train
