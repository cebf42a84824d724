#include "base/check.h"

namespace lockstep {

void ThrowCheckFailure(const char* file, int line, const char* condition,
                       const std::string& message) {
  throw CheckFailure(fmt::format("{}:{}: check '{}' failed: {}", file, line, condition, message));
}

}  // namespace lockstep
