#include "jax/call.h"

namespace posenc::jax {

ffi::Error error_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return ffi::Error::Success();
    case StatusCode::kInvalidArgument:
      return ffi::Error::InvalidArgument(status.message());
    case StatusCode::kOutOfRange:
      return {ffi::ErrorCode::kOutOfRange, status.message()};
    case StatusCode::kUnsupported:
      return {ffi::ErrorCode::kUnimplemented, status.message()};
    case StatusCode::kResourceExhausted:
      return {ffi::ErrorCode::kResourceExhausted, status.message()};
  }
  return ffi::Error::Internal(status.message());
}

// A Status that became an exception on its way carries its whole message in the rule.
ffi::Error error_of(const Error& error) {
  const std::string message = error.scope() == "kernel" ? error.rule() : error.what();
  const bool unsupported = error.kind() == ErrorKind::kUnsupported;
  return {unsupported ? ffi::ErrorCode::kUnimplemented : ffi::ErrorCode::kInvalidArgument, message};
}

}  // namespace posenc::jax
