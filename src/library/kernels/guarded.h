// Runs the body of a noexcept kernel and converts its exceptions to a Status.
#pragma once

#include <exception>
#include <new>

#include "posenc/core/status.h"

namespace posenc {

template <class Body>
Status guarded(const char* op, const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::format(StatusCode::kResourceExhausted, "[%s] out of memory for scratch", op);
  } catch (const std::exception& problem) {
    return {StatusCode::kInvalidArgument, problem.what()};
  }
}

}  // namespace posenc
