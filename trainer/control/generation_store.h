// The key-value store of a generation, on the rendezvous's connection.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/v1/job_token.h"
#include "trainer/comm/key_value_store.h"
#include "trainer/control/rendezvous_stream.h"

namespace lockstep::train {

class GenerationStore final : public KeyValueStore {
 public:
  struct Target {  // stream is null if there is no generation
    std::shared_ptr<RendezvousStream> stream;
    std::uint64_t generation = 0;
    proto::Challenge challenge;  // of the stream
  };
  GenerationStore(api::JobToken token, std::function<Target()> current);

  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, Duration timeout) override;

 private:
  std::string Prove(const Target& target, const std::string& key, const std::string& value) const;

  const api::JobToken token_;
  const std::function<Target()> current_;
};

}  // namespace lockstep::train
