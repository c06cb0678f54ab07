// Errors of the C++ interface: typed, and readable as one line.
//
//   [rope] rotary_dim must be even but got 7
//   [yarn] factor is required; add it
//
// The parts are kept apart (scope, key, rule, value), so that a program can act on them and a
// person reads what is wrong, which value it was and what to do. what() is one line of valid UTF-8
// without control characters, whatever the value holds. Kernels and the C ABI do not
// throw: they return a Status (status.h).
#pragma once

#include <stdexcept>
#include <string>

namespace posenc {

enum class ErrorKind {
  kSyntax,       // the text is not a spec, not YAML or not JSON
  kUnknownKey,   // a key or a name that nothing answers to
  kMissingKey,   // a required key is absent
  kWrongType,    // a number was wanted and a list was given
  kOutOfRange,   // the type is right and the value is not allowed
  kWrongLength,  // a list with the wrong number of entries
  kNotFinite,    // NaN or infinity
  kConflict,     // each value is allowed, and together they are not
  kUnsupported,  // the named system cannot do this
  kResource,     // a limit on memory or length was reached
  kIo,           // a file could not be read or written
};

// Name of a kind as it appears in machine-readable output: "unknown_key", "not_finite", ...
const char* error_kind_name(ErrorKind kind);

struct ErrorParts {
  std::string scope = {};  // the encoding, schedule or file that complains
  std::string key = {};    // the field, empty when the whole input is meant
  std::string rule = {};   // "must be even"
  std::string value = {};  // what was given, empty when nothing was
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
