// What back ends share whose device is the host: memory, copies, and decisions about updates.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

class HostBackend : public Backend {
 public:
  HostBackend();
  ~HostBackend() override;
  bool IsHost() const final { return true; }
  MemorySource& memory() final { return HostMemory(); }
  void Upload(const void* host, void* device, std::size_t bytes) final;
  void Download(const void* device, void* host, std::size_t bytes) final;
  void Copy(const void* from, void* to, std::size_t bytes) final;
  void Zero(void* memory, std::size_t bytes) final;
  // Their work is done when a call returns, so events never wait and Call runs on the caller.
  Stream& stream() final { return *stream_; }
  std::unique_ptr<Stream> MakeStream() final;
  void WriteTail(const LossTotals& totals, StepTail& tail) final;
  void DecideUpdate(const UpdateMemory& memory) final;
  bool AllFinite(const float* values, std::int64_t size) final;
  void Synchronize() final {}

 protected:
  // The same result as SquaredNorm in trainer/core.
  virtual double SquaredNormOf(const float* values, std::int64_t size) = 0;

 private:
  std::unique_ptr<Stream> stream_;
};

}  // namespace lockstep::train
