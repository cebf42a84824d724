// The key-value store of a generation. It uses the rendezvous's connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/v1/job_token.h"
#include "trainer/comm/key_value_store.h"
#include "trainer/rendezvous/rendezvous_stream.h"

namespace lockstep::train {

inline constexpr std::size_t kMostKeysOfAGet = 256;  // per call: see rendezvous.proto

class GenerationStore final : public KeyValueStore {
 public:
  struct Target {  // stream is null if there is no generation
    std::shared_ptr<RendezvousStream> stream;
    std::uint64_t generation = 0;
    proto::Challenge challenge;  // the stream's
  };
  GenerationStore(api::JobToken token, std::function<Target()> current);

  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions& options) override;

 private:
  std::string Prove(const Target& target, const std::string& content) const;
  // Appends the values of up to kMostKeysOfAGet keys, from `first` on, within `options.timeout`.
  absl::Status GetSome(const std::vector<std::string>& keys, std::size_t first,
                       const GetOptions& options, std::vector<std::string>& values) const;

  const api::JobToken token_;
  const std::function<Target()> current_;
};

}  // namespace lockstep::train
