#include "trainer/backend/cuda/device/device_facts.h"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <string>

#include "trainer/backend/cuda/device/dnn_graph.h"
#include "trainer/backend/cuda/device/matmul.h"

namespace lockstep::train::cuda {
namespace {

// NVIDIA's number of the driver, such as "580.95.05"; empty if the kernel does not tell. The line:
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build …"
std::string DriverNumber() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool is_number = std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    if (is_number && word.find('.') != std::string::npos) return word;
  }
  return "";
}

std::string Memory(const Device& device) {
  constexpr double kGibibyte = 0x1p30;
  std::size_t free = 0, total = 0;
  device.CheckCall(device.driver().MemGetInfo(&free, &total), "cuMemGetInfo");
  return fmt::format("{:.1f} GiB, of which {:.1f} GiB are free",
                     static_cast<double>(total) / kGibibyte, static_cast<double>(free) / kGibibyte);
}

}  // namespace

std::string DescribeDriver(int version) {  // 1000 * major + 10 * minor
  std::string text = fmt::format("for CUDA {}.{}", version / 1000, version % 1000 / 10);
  const std::string number = DriverNumber();
  return number.empty() ? text : fmt::format("{}, {}", number, text);
}

std::vector<DeviceFact> DeviceFacts(const Device& device) {
  const DnnLibrary& dnn = device.dnn_library();
  const MatmulLibrary& matmul = device.matmul_library();
  const std::size_t cudnn = dnn.api().GetVersion();        // 10000 * major + 100 * minor + patch
  const std::size_t cublaslt = matmul.api().GetVersion();  // likewise
  const auto version = [](std::size_t number) {
    return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
  };
  return {{"GPU", device.name()},
          {"compute capability", fmt::format("{}.{}", device.compute_capability() / 10,
                                             device.compute_capability() % 10)},
          {"multiprocessors", fmt::format("{}", device.multiprocessors())},
          {"memory", Memory(device)},
          {"driver", DescribeDriver(device.DriverVersion())},
          {"cuDNN", fmt::format("{} ({})", version(cudnn), dnn.path())},
          {"cuBLASLt", fmt::format("{} ({})", version(cublaslt), matmul.path())}};
}

}  // namespace lockstep::train::cuda
