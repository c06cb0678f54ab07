#include "capi/guard.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

#include "core/plain_text.h"
#include "posenc/core/error.h"

namespace posenc::capi {
namespace {

// An array, not a string: nothing to allocate when memory is what is missing, and nothing to destroy
// when a thread ends.
thread_local constinit std::array<char, 1024> last_error{};

posenc_status remember(posenc_status code, const char* message) noexcept {
  std::snprintf(last_error.data(), last_error.size(), "%s", message);
  repair_utf8(last_error.data());
  return code;
}

posenc_status code_of(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return POSENC_OK;
    case StatusCode::kInvalidArgument:
      return POSENC_INVALID_ARGUMENT;
    case StatusCode::kOutOfRange:
      return POSENC_OUT_OF_RANGE;
    case StatusCode::kUnsupported:
      return POSENC_UNSUPPORTED;
    case StatusCode::kResourceExhausted:
      return POSENC_RESOURCE_EXHAUSTED;
  }
  return POSENC_INTERNAL;
}

posenc_status code_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kSyntax:
    case ErrorKind::kUnknownKey:
    case ErrorKind::kMissingKey:
    case ErrorKind::kWrongType:
    case ErrorKind::kNotFinite:
      return POSENC_BAD_SPEC;
    case ErrorKind::kOutOfRange:
      return POSENC_OUT_OF_RANGE;
    case ErrorKind::kWrongLength:
    case ErrorKind::kConflict:
      return POSENC_INVALID_ARGUMENT;
    case ErrorKind::kUnsupported:
      return POSENC_UNSUPPORTED;
    case ErrorKind::kResource:
      return POSENC_RESOURCE_EXHAUSTED;
    case ErrorKind::kIo:
      break;
  }
  return POSENC_INTERNAL;
}

}  // namespace

void fail(StatusCode code, const char* format, ...) {
  std::array<char, 200> message{};
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message.data(), message.size(), format, arguments);
  va_end(arguments);
  throw Failure{Status(code, message.data())};
}

posenc_status report(const Status& status) noexcept {
  if (status.ok()) return POSENC_OK;
  return remember(code_of(status.code()), status.message());
}

posenc_status report_exception() noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    return report(failure.status);
  } catch (const Error& error) {
    return remember(code_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return remember(POSENC_RESOURCE_EXHAUSTED, "[posenc] out of memory");
  } catch (const std::length_error&) {
    return remember(POSENC_RESOURCE_EXHAUSTED, "[posenc] out of memory: a size is too large");
  } catch (const std::exception& problem) {
    return remember(POSENC_INTERNAL, problem.what());
  } catch (...) {
    return remember(POSENC_INTERNAL, "[posenc] an exception of unknown type");
  }
}

}  // namespace posenc::capi

extern "C" {

const char* posenc_last_error(void) noexcept { return posenc::capi::last_error.data(); }

const char* posenc_status_name(posenc_status status) noexcept {
  switch (status) {
    case POSENC_OK:
      return "ok";
    case POSENC_INVALID_ARGUMENT:
      return "invalid_argument";
    case POSENC_OUT_OF_RANGE:
      return "out_of_range";
    case POSENC_UNSUPPORTED:
      return "unsupported";
    case POSENC_RESOURCE_EXHAUSTED:
      return "resource_exhausted";
    case POSENC_BAD_SPEC:
      return "bad_spec";
    case POSENC_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

}  // extern "C"
