// Errors as values: code branches on codes, people read messages. Build messages with fmt::format.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the expression's Status from the enclosing function if it is not OK.
#define LOCKSTEP_RETURN_IF_ERROR(expr)                   \
  do {                                                   \
    absl::Status lockstep_status_ = (expr);              \
    if (!lockstep_status_.ok()) return lockstep_status_; \
  } while (false)

#define LOCKSTEP_CONCAT_INNER_(a, b) a##b
#define LOCKSTEP_CONCAT_(a, b) LOCKSTEP_CONCAT_INNER_(a, b)

// Unwraps a StatusOr into `lhs`, or returns its Status from the enclosing function.
#define LOCKSTEP_ASSIGN_OR_RETURN(lhs, expr) \
  LOCKSTEP_ASSIGN_OR_RETURN_(LOCKSTEP_CONCAT_(lockstep_or_, __LINE__), lhs, expr)
#define LOCKSTEP_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  lhs = *std::move(tmp)
