// What the page's server answers. Any program and any user of this machine can connect to it, and
// so can any page in the same browser: whoever does not know the token learns nothing but the page
// itself, which is the same for all.
#pragma once

#include <string>
#include <utility>

#include "base/http_server.h"
#include "operator/cli/ui/board.h"

namespace lockstep::cli {

// Returns a new secret that an URL can hold.
std::string NewToken();

// Answers paths below /api/ to requests with the header "Authorization: Bearer <token>", and others
// with the page's files. Thread-safe.
class Answers {
 public:
  Answers(Board& board, std::string token) : board_(board), token_(std::move(token)) {}

  // 403 for a name in Host that is not this machine's own: a page elsewhere has had its name
  // resolved to this machine. 401 without the token.
  HttpAnswer To(const HttpGet& get) const;

 private:
  HttpAnswer ToApi(const HttpGet& get) const;

  Board& board_;
  const std::string token_;
};

}  // namespace lockstep::cli
