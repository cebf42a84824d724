// Identities for tests, said in one line: Worker(1, {"127.0.0.1:1", "127.0.0.1:2"}).
#pragma once

#include <string>
#include <vector>

#include "tests/support/builders.h"
#include "trainer/identity/identity.h"

namespace lockstep::testing {

inline train::Identity Worker(int index, std::vector<std::string> addresses) {
  train::Identity identity;
  identity.job = "mnist";
  identity.job_uid = "mnist-uid";
  identity.role = api::Role::kWorker;
  identity.index = index;
  identity.cluster.worker = std::move(addresses);
  identity.cluster.task_index = index;
  identity.training = MnistTraining();
  return identity;
}

}  // namespace lockstep::testing
