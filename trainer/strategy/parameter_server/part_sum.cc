#include "trainer/strategy/parameter_server/part_sum.h"

#include <algorithm>
#include <utility>

namespace lockstep::train {

void PartSum::Allocate(std::int64_t floats) {
  size_ = floats;
  sum_ = std::make_unique<Arena>();
  sum_->Reserve(static_cast<std::size_t>(std::max<std::int64_t>(floats, 1)) * sizeof(float));
  sum_->Allocate();
  Begin();
}

void PartSum::Begin() {
  is_empty_ = true;
  next_ = 0;
  has_1_ = false;
  kept_.clear();
}

bool PartSum::Has(int part) const {
  return part < next_ || (part == 1 && has_1_) || kept_.contains(part);
}

void PartSum::Add(int part, std::span<const std::span<const float>> pieces) {
  if (part == next_) {
    AddPieces(pieces);
    next_ += next_ == 0 && has_1_ ? 2 : 1;
  } else if (part == 1 && next_ == 0) {
    AddPieces(pieces);
    has_1_ = true;
  } else {
    Keep(part, pieces);
  }
  AddKept();
}

const float* PartSum::Floats() {
  if (is_empty_) std::fill_n(sum_->At<float>(0), size_, 0.0f);
  is_empty_ = false;
  return sum_->At<float>(0);
}

void PartSum::AddPieces(std::span<const std::span<const float>> pieces) {
  float* sum = sum_->At<float>(0);
  for (const std::span<const float> piece : pieces) {
    if (is_empty_) {
      backend_.Scale(piece.data(), sum, std::ssize(piece), 1.0f);  // a copy, on all threads
    } else {
      backend_.Accumulate(piece.data(), sum, std::ssize(piece));
    }
    sum += piece.size();
  }
  if (!pieces.empty()) is_empty_ = false;
}

void PartSum::Keep(int part, std::span<const std::span<const float>> pieces) {
  std::vector<float>& kept = kept_[part];
  if (pieces.empty()) return;
  if (!spare_.empty()) {
    kept = std::move(spare_.back());
    spare_.pop_back();
    kept.clear();
  }
  for (const std::span<const float> piece : pieces) {
    kept.insert(kept.end(), piece.begin(), piece.end());
  }
}

void PartSum::AddKept() {
  for (auto at = kept_.find(next_); at != kept_.end(); at = kept_.find(next_)) {
    std::vector<float> part = std::move(at->second);
    kept_.erase(at);
    ++next_;
    if (part.empty()) continue;
    const std::span<const float> piece = part;
    AddPieces({&piece, 1});
    spare_.push_back(std::move(part));
  }
}

}  // namespace lockstep::train
