// Runs the body of a handler and converts what it returns or throws to XLA's errors.
#pragma once

#include <exception>
#include <new>

#include "jax/buffers.h"

namespace posenc::jax {

ffi::Error error_of(const Status& status);
ffi::Error error_of(const Error& error);

template <class Body>
ffi::Error guarded(const Body& body) {
  try {
    return error_of(body());
  } catch (const Error& error) {
    return error_of(error);
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "[posenc] out of memory"};
  } catch (const std::exception& problem) {
    return {ffi::ErrorCode::kInternal, problem.what()};
  }
}

}  // namespace posenc::jax
