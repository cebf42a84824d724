#include "trainer/backend/cuda/device/device_library.h"
#include "trainer/backend/cuda/device/driver_api.h"

namespace lockstep::train::cuda {
namespace {

DriverApi LoadDriver() {
  const DeviceLibrary library({"libcuda.so.1"}, "NVIDIA's driver (libcuda.so.1)");
  DriverApi driver;
#define LOCKSTEP_LOAD(member, symbol, arguments) library.Load(driver.member, symbol);
  LOCKSTEP_CUDA_DRIVER_FUNCTIONS(LOCKSTEP_LOAD)
#undef LOCKSTEP_LOAD
  return driver;
}

}  // namespace

const DriverApi& Driver() {
  static const DriverApi driver = LoadDriver();
  return driver;
}

}  // namespace lockstep::train::cuda
