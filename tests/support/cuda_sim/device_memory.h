// The simulated device's memory. Its addresses fault when the host uses them; kernels get the real
// ones. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_sim {

// Returns `bytes` > 0, filled with NaN; null if there are too many.
void* AllocateDevice(std::size_t bytes);
// False if no allocation begins there.
bool FreeDevice(const void* memory);
// Null for null. Aborts, naming the address, if it is outside of what is allocated.
const void* RealAddress(const void* memory);
template <typename T>
T* RealAddress(std::uint64_t memory) {
  return static_cast<T*>(const_cast<void*>(RealAddress(reinterpret_cast<const void*>(memory))));
}

// Page-locked memory of the host, which copies use when they run, not when they are queued.
void* AllocatePinned(std::size_t bytes);
bool FreePinned(const void* memory);
bool IsPinned(const void* memory);

inline constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;
std::size_t FreeDeviceBytes();

}  // namespace cuda_sim
