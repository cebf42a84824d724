#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {

// Calls the Fill of the part's source. The declaration is in here, so that a part needs no line in
// this file; the linker names a part without a source.
template <typename Part>
void FillPart(Part& part) {
  void Fill(Part & part);
  Fill(part);
}

template <typename... Parts>
void FillParts(KernelTable<Parts...>& table) {
  (FillPart<Parts>(table), ...);
}

// Made when the instruction set is chosen: code of this file may not run on other machines.
const Kernels& Table() {
  static const Kernels kTable = [] {
    Kernels table{};
    table.lanes = LOCKSTEP_LANES;
    FillParts(table);
    return table;
  }();
  return kTable;
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
