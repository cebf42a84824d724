// TF_CONFIG as a trainer reads it.
#include "tests/fuzz/fuzz.h"
#include "trainer/identity/identity.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cluster = lockstep::train::ParseTfConfig(lockstep::fuzz::Text(data, size));
  if (!cluster.ok()) {
    Require(!cluster.status().message().empty(), "a refusal says why");
    return 0;
  }
  Require(cluster->task_index >= 0, "a task has an index");
  return 0;
}
