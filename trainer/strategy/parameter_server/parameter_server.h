// A parameter server's process: its shard and, on server 0, the run's coordination, over gRPC. The
// messages are in api/proto/parameter_server.proto.
//
// The design, in short:
//   - plan_shards says which server holds which part of the flat parameters; running statistics are
//     few, so server 0 holds all of them. shard.h is a server's content.
//   - A worker asks server 0 (task_coordinator.h) for a task: a part of a step's batch, leased by
//     lease_book.h so that each counts once. It pulls the values from all servers, computes, pushes
//     the gradient to all servers, and reports the task's sums when all have taken it. A push that
//     is repeated (by a worker that lost its connection, or by the next holder of a dead worker's
//     task) is taken once by each shard.
//   - Async: a shard updates its values with each gradient as it arrives. Sync: a shard sums the
//     parts of a step, in order; once server 0 knows that all parts have arrived everywhere, the
//     next pull makes the update. So a step is either made on all servers or repeated on all.
//   - Only the leading process reads and writes checkpoints, in the ordinary format. It names a
//     step at which server 0 stops giving out tasks; when the tasks before it are done, it pulls
//     everything. So a checkpoint is one version of everything, and restores with any number of
//     servers.
//   - A fence identifies one life of the values. If a server loses its part, the first worker that
//     notices tells server 0; the leading process loads all servers from its newest checkpoint
//     under a new fence, and whatever still carries the old one is refused.
//   - Processes of one host share memory, so that gRPC carries no floats: the server maps the
//     worker's gradient buffer, and the worker maps the server's values and copies them
//     (shared_content.h). If an update interrupts the copy, the server copies the values to memory
//     of the worker instead.
//
// Callers prove that they know the job's token before the server reads anything else from them, and
// the server proves it to them before they send or take values. caller_gate.h bounds what callers
// cost before their proof, and the job's NetworkPolicy keeps strangers from connecting at all.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "trainer/identity/identity.h"
#include "trainer/strategy/parameter_server/caller_gate.h"
#include "trainer/strategy/parameter_server/shard.h"
#include "trainer/strategy/parameter_server/task_coordinator.h"

namespace lockstep::train {

struct ParameterServerOptions {
  int index = 0;
  std::string address;  // host:port to listen at; port 0 picks a free one
  std::string job;      // ServerGroupHash
  api::JobToken token;
  TaskCoordinatorOptions tasks;  // used by server 0
  CallerLimits callers;
  std::function<bool()> stop_requested = [] { return false; };
  MakeContent make_content = &SharedContent::Create;  // for what is loaded
  // After the end of the run, how long to wait for callers to learn of it and hang up.
  Duration drain = std::chrono::seconds(5);
};

// Returns the peak of the bytes that a server with this layout needs for floats while `callers`
// processes on other hosts exchange them with it. Processes on its own host add nothing, because
// they share its memory. InvalidArgument: as for Shard::FloatsToLoad.
absl::StatusOr<std::size_t> MostBytesOfServer(const Shard& shard, const ShardLayout& layout,
                                              int callers);

// Thread-safe.
class ParameterServer {
 public:
  // Starts to serve. Unavailable: it cannot listen (names the address and the reason), or gRPC does
  // not start. Requires: `shard` and `clock` outlive the server.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(ParameterServerOptions options,
                                                                Shard& shard, const Clock& clock);
  // Ends all streams.
  virtual ~ParameterServer() = default;
  virtual int port() const = 0;

  enum class End {
    kFinished,  // the leading process has said that the run is over
    kStopped,   // asked to stop, and no caller needs this server any longer
  };
  // Blocks until the server may exit. A server that is asked to stop tells this to the callers that
  // push or pull. The leading process then pulls everything and saves. WaitForEnd returns when the
  // leading process has reported the save, or when no caller is connected any more; after the end
  // of the run, when all callers have hung up, or after options.drain.
  virtual End WaitForEnd() = 0;
};

// Equal for processes that may train together. Covers the protocol version, job uid, attempt,
// number of servers, strategy, and `training` without its folders; not the number of chiefs and
// workers, who may come and go. Readable, except for the digests of the strategy and of `training`.
std::string ServerGroupHash(const Identity& identity);

// Returns the proof for the introduction `who`. It covers the nonce and `who` without its proof.
std::string ProofOfIntroduction(const api::JobToken& token, const std::string& nonce,
                                proto::Introduction who);
// Returns true if the proof in `who` is ProofOfIntroduction, compared in constant time. Without a
// token, accepts any proof.
bool AcceptsIntroduction(const api::JobToken& token, const std::string& nonce,
                         proto::Introduction who);

// Returns the proof in the server's answer to the introduction `who`. It covers the server's
// challenge and `who`, which answered the challenge.
std::string ProofOfServer(const api::JobToken& token, const std::string& challenge,
                          const proto::Introduction& who);
// Returns true if `proof` is ProofOfServer, compared in constant time. Without a token, accepts any
// proof.
bool AcceptsServer(const api::JobToken& token, const std::string& challenge,
                   const proto::Introduction& who, const std::string& proof);

}  // namespace lockstep::train
