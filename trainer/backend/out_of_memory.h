// What a back end throws where its device, or the host for its copies, lacks the memory that is
// asked for. The device is sound: it may do with less, or later.
#pragma once

#include "trainer/backend/backend.h"

namespace lockstep::train {

class OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace lockstep::train
