#include "posenc/core/error.h"

#include <utility>

#include "core/last_error.h"
#include "core/plain_text.h"

namespace posenc {
namespace {

std::string compose(const ErrorParts& parts) {
  std::string text = "[" + parts.scope + "]";
  if (!parts.key.empty()) text += " " + parts.key;
  text += " " + parts.rule;
  if (!parts.value.empty()) text += " but got " + parts.value;
  if (!parts.hint.empty()) text += "; " + parts.hint;
  return text;
}

std::optional<Error>& record() {
  thread_local std::optional<Error> last;
  return last;
}

}  // namespace

const std::optional<Error>& last_error() { return record(); }

const char* error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kSyntax:
      return "syntax";
    case ErrorKind::kUnknownKey:
      return "unknown_key";
    case ErrorKind::kMissingKey:
      return "missing_key";
    case ErrorKind::kWrongType:
      return "wrong_type";
    case ErrorKind::kOutOfRange:
      return "out_of_range";
    case ErrorKind::kWrongLength:
      return "wrong_length";
    case ErrorKind::kNotFinite:
      return "not_finite";
    case ErrorKind::kConflict:
      return "conflict";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kIo:
      return "io";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, ErrorParts parts)
    : std::runtime_error(one_line(compose(parts))), kind_(kind), parts_(std::move(parts)) {
  record() = *this;
}

}  // namespace posenc
