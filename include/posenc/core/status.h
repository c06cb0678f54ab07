// The result of a kernel: a code and a message, without allocation and without exceptions.
//
// Kernels and the C ABI are noexcept. They check all arguments before they write anything; the
// message names the argument, the rule that it breaks and its value.
#pragma once

#include <array>
#include <cstdint>

namespace posenc {

enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,  // a null pointer, a bad shape or stride, overlapping buffers
  kOutOfRange,       // a position past a table, an index past a shape
  kUnsupported,      // a combination that no kernel supports
  kResourceExhausted,
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, const char* message) noexcept;

  // printf-style. Messages that are too long are truncated at a UTF-8 character boundary; bytes that
  // are not UTF-8 become question marks.
  [[gnu::format(printf, 2, 3)]] static Status format(StatusCode code, const char* format,
                                                     ...) noexcept;

  [[nodiscard]] bool ok() const noexcept { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const noexcept { return code_; }
  [[nodiscard]] const char* message() const noexcept { return message_.data(); }

  // Throws posenc::Error unless ok; for callers that prefer exceptions.
  void throw_if_error() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::array<char, 200> message_{};
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
