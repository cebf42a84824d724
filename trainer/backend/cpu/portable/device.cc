#include "trainer/backend/cpu/device/device.h"

namespace lockstep::train::cpu {

Isa EffectiveIsa() {
  return BestIsa();
}

std::shared_ptr<Onednn> MakeOnednn() {
  return nullptr;
}

}  // namespace lockstep::train::cpu
