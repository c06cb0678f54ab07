#include "system/file_errors.h"

#include <cerrno>
#include <system_error>

namespace posenc {

Error file_error(ErrorKind kind, const std::string& path, const std::string& subject,
                 const std::string& rule, const std::string& value, const std::string& hint) {
  return {kind, {.scope = path, .key = subject, .rule = rule, .value = value, .hint = hint}};
}

Error system_error(const std::string& path, const std::string& what, int error_number,
                   const std::string& hint) {
  const std::string why = std::generic_category().message(error_number);
  return file_error(ErrorKind::kIo, path, "", what + ": " + why, "", hint);
}

Error write_error(const std::string& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  const char* hint = full ? "make room; what was there is untouched"
                     : error_number == EROFS
                         ? "choose a folder on a file system that can be written"
                         : "check the path and its permissions";
  return system_error(path, "cannot be written", error_number, hint);
}

}  // namespace posenc
