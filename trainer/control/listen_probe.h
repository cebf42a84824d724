// Why a server could not listen: gRPC does not say.
#pragma once

#include <string>

namespace lockstep::train {

// The system's reason for refusing a listener at host:port ("Address already in use"), found by
// trying again; "the name cannot be resolved" and such where it does not come to that.
std::string WhyNoListener(const std::string& address);

}  // namespace lockstep::train
