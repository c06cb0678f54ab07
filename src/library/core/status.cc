#include "posenc/core/status.h"

#include <cstdarg>
#include <cstdio>

#include "core/plain_text.h"
#include "posenc/core/error.h"

namespace posenc {

Status::Status(StatusCode code, const char* message) noexcept : code_(code) {
  std::snprintf(message_.data(), message_.size(), "%s", message);
  repair_utf8(message_.data());
}

Status Status::format(StatusCode code, const char* format, ...) noexcept {
  Status status;
  status.code_ = code;
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(status.message_.data(), status.message_.size(), format, arguments);
  va_end(arguments);
  repair_utf8(status.message_.data());
  return status;
}

void Status::throw_if_error() const {
  if (ok()) return;
  ErrorKind kind = ErrorKind::kOutOfRange;
  if (code_ == StatusCode::kUnsupported) kind = ErrorKind::kUnsupported;
  if (code_ == StatusCode::kResourceExhausted) kind = ErrorKind::kResource;
  throw Error(kind,
              {.scope = "kernel", .key = "", .rule = message_.data(), .value = "", .hint = ""});
}

}  // namespace posenc
