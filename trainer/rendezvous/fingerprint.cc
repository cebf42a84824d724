#include "trainer/rendezvous/fingerprint.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kLongest = 200;  // a peer may send any text

// Returns the first fact of `facts` and removes it from there.
std::string_view TakeFact(std::string_view& facts) {
  const std::size_t end = facts.find(';');
  const std::string_view fact = facts.substr(0, end);
  facts = end == std::string_view::npos ? std::string_view() : facts.substr(end + 1);
  return fact;
}

std::string Shown(std::string_view fact) {
  return fact.empty() ? "nothing" : std::string(fact.substr(0, kLongest));
}

}  // namespace

std::optional<FingerprintDifference> FirstDifference(std::string_view own, std::string_view other) {
  if (own == other) return std::nullopt;
  std::string_view own_fact, other_fact;
  do {
    own_fact = TakeFact(own);
    other_fact = TakeFact(other);
  } while (own_fact == other_fact && !(own.empty() && other.empty()));
  return FingerprintDifference{Shown(own_fact), Shown(other_fact)};
}

}  // namespace lockstep::train
