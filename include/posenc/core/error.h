// Exceptions of the C++ interface. Each has a kind, and its message is one line.
//
//   [rope] rotary_dim must be even but got 7
//   [yarn] factor is required; add it
//
// The parts of the message (scope, key, rule, value, hint) are available separately, so that a
// program can act on them. what() is one line of valid UTF-8 without control characters, even if
// the value contains some. Kernels and the C ABI do not throw: they return a Status (status.h).
#pragma once

#include <stdexcept>
#include <string>

namespace posenc {

enum class ErrorKind {
  kSyntax,       // the text is not a spec, not YAML or not JSON
  kUnknownKey,   // an unknown key or name
  kMissingKey,   // a required key is absent
  kWrongType,    // for example a list in place of a number
  kOutOfRange,   // the type is right but the value is not allowed
  kWrongLength,  // a list with the wrong number of entries
  kNotFinite,    // NaN or infinity
  kConflict,     // values that are valid alone but not together
  kUnsupported,  // the operation, device or build does not support this
  kResource,     // a limit on memory or length was reached
  kIo,           // a file could not be read or written
};

// Name of a kind as it appears in machine-readable output: "unknown_key", "not_finite", ...
const char* error_kind_name(ErrorKind kind);

struct ErrorParts {
  std::string scope = {};  // the encoding, schedule, operation or file
  std::string key = {};    // the field; empty if the error concerns the whole input
  std::string rule = {};   // "must be even"
  std::string value = {};  // the value that was given; empty if none was
  std::string hint = {};   // "did you mean 'theta'?"
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, ErrorParts parts);

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] const std::string& scope() const { return parts_.scope; }
  [[nodiscard]] const std::string& key() const { return parts_.key; }
  [[nodiscard]] const std::string& rule() const { return parts_.rule; }
  [[nodiscard]] const std::string& value() const { return parts_.value; }
  [[nodiscard]] const std::string& hint() const { return parts_.hint; }

 private:
  ErrorKind kind_;
  ErrorParts parts_;
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
