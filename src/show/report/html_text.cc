#include "report/html_text.h"

#include "draw/files.h"
#include "runs/numbers.h"
#include "system/sha256.h"

namespace posenc::report {

std::string script_json(const Value& value) {
  std::string out;
  for (const char c : to_json(runs::without_non_finite(value))) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

std::string script_hash(std::string_view script) {
  Sha256 hash;
  hash.update(script);
  return "sha256-" + draw::base64(hash.digest());
}

}  // namespace posenc::report
