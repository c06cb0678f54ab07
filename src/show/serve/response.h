// A response of the server: plain data, which http.cc sends.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/value.h"
#include "serve/files.h"

namespace posenc::serve {

struct Response {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::optional<File> file;  // in place of the body

  // The value of a header, or "".
  [[nodiscard]] std::string header(std::string_view name) const;
};

// JSON that is never kept: the runs change while one looks at them.
Response json_response(std::string text, int status = 200);
Response json_response(const Value& value, int status = 200);
// {"error": "[request] path must ..."}
Response error_response(int status, std::string_view text);
Response redirect(const std::string& where);

// Text that is part of the program.
Response text_response(std::string_view text, std::string_view content_type);
// A file with its type by name and a tag by size and time; 304 where the client has it.
Response file_response(File file, std::string_view name, std::string_view if_none_match);

// By the name's ending; application/octet-stream where it is not known.
std::string_view content_type(std::string_view name);

// What every answer says: no other origin may frame it, read it or guess its type.
void add_security_headers(Response& response);

}  // namespace posenc::serve
