// What this back end's optimizers have in common that scale each tensor's step by a trust of its
// own: all but their factors and their kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/cpu/parallel.h"
#include "trainer/backend/cpu/update_range.h"
#include "trainer/backend/segments.h"
#include "trainer/backend/update_rules.h"

namespace lockstep::train::cpu {

// `Rule` is an optimizer:
//   static constexpr const char* kName
//   a member `spec`, of which TrustOf(spec, squares) is the trust
//   int Slots() const
//   Factors FactorsOf(const OptimizerStep&) const
//       the kernels', of values that decay and have a trust of 1
//   static TrustSquares Measure(const Kernels&, const Factors&, const UpdateRange&)
//   static void Run(const Kernels&, const Factors&, const UpdateRange&)
// The sums' order depends only on the segments, so that threads and instruction sets do not change
// a bit.
template <typename Rule>
class TrustOptimizer final : public OptimizerOp {
 public:
  TrustOptimizer(const Device& device, const Rule& rule) : device_(device), rule_(rule) {}
  int Slots() const override { return rule_.Slots(); }
  void Bind(const OptimizerMemory& memory) override {
    CheckOptimizerMemory(Rule::kName, memory, Slots());
    memory_ = memory;
    memory_.segments = SegmentsOf(memory);
    pieces_ = PiecesOf(memory_.segments, kMostInPiece);
    of_pieces_.resize(pieces_.size());
    trusts_.resize(memory_.segments.size());
  }

  void Step() override {
    const OptimizerStep& step = *memory_.step;
    if (!step.applies) return;
    const auto decaying = rule_.FactorsOf(step);
    auto others = decaying;
    others.decay = 0;
    ForEachPiece([&](std::size_t i, bool decays) {
      of_pieces_[i] = Rule::Measure(device_.kernels, decays ? decaying : others, RangeOf(i));
    });
    ChooseTrusts();
    ForEachPiece([&](std::size_t i, bool decays) {
      auto own = decays ? decaying : others;
      own.rate *= trusts_[static_cast<std::size_t>(pieces_[i].segment)];
      Rule::Run(device_.kernels, own, RangeOf(i));
    });
  }

 private:
  static constexpr std::int64_t kMostInPiece = 8192;

  // Calls body(number of the piece, whether it decays) for all pieces, on all threads.
  template <typename Body>
  void ForEachPiece(const Body& body) {
    ParallelFor(ThreadsFor(device_.threads, memory_.size), std::ssize(pieces_),
                [&](std::int64_t first, std::int64_t last) {
                  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last);
                       ++i) {
                    body(i, SegmentOf(pieces_[i]).decays);
                  }
                });
  }

  UpdateRange RangeOf(std::size_t piece) const {
    return cpu::RangeOf(memory_, pieces_[piece].begin, pieces_[piece].end);
  }
  const OptimizerSegment& SegmentOf(const OptimizerPiece& piece) const {
    return memory_.segments[static_cast<std::size_t>(piece.segment)];
  }

  void ChooseTrusts() {
    for (std::size_t i = 0; i < pieces_.size();) {
      const OptimizerPiece& first = pieces_[i];
      TrustSquares sum;
      for (; i < pieces_.size() && pieces_[i].segment == first.segment; ++i) {
        sum.values += of_pieces_[i].values;
        sum.update += of_pieces_[i].update;
      }
      trusts_[static_cast<std::size_t>(first.segment)] =
          SegmentOf(first).decays ? TrustOf(rule_.spec, sum) : 1;
    }
  }

  const Device& device_;
  const Rule rule_;
  OptimizerMemory memory_;
  std::vector<OptimizerPiece> pieces_;
  std::vector<TrustSquares> of_pieces_;
  std::vector<float> trusts_;  // by segment
};

}  // namespace lockstep::train::cpu
