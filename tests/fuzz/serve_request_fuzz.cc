// Hostile requests: whatever is sent, names that a path is made of are plain, and there is an answer.
// Lines of the input: target, method, host, Sec-Fetch-Site, Origin.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/plain_text.h"
#include "posenc/core/error.h"
#include "serve/site.h"

namespace {

using namespace posenc::serve;  // NOLINT(google-build-using-namespace)

void require(bool holds) {
  if (!holds) std::abort();
}

std::string take_line(std::string_view& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string line(input.substr(0, end));
  input.remove_prefix(std::min(end + 1, input.size()));
  return line;
}

void check_target(const std::string& text) {
  try {
    for (const std::string& name : parse_target(text).segments) {
      require(!name.empty() && name.front() != '.' && posenc::is_utf8(name));
      require(name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos);
      require(percent_decoded(percent_encoded(name)) == name);
    }
  } catch (const posenc::Error& error) {
    require(error.scope() == "request");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Site site(
      {.folder = "/nonexistent", .web = "/nonexistent", .attention = {.words = {"/nonexistent"}}});
  std::string_view input(reinterpret_cast<const char*>(data), size);
  Request request;
  request.target = take_line(input);
  request.method = take_line(input);
  request.host = take_line(input);
  request.fetch_site = take_line(input);
  request.origin = take_line(input);
  check_target(request.target);
  parse_record_name(request.target);
  const Response response = site.handle(request);
  require(response.status >= 200 && response.status < 500);  // nothing here is the server's fault
  require(!response.header("Content-Security-Policy").empty());
  const bool foreign = !request.origin.empty() && !is_same_origin(request.origin, request.host);
  if (foreign && request.target.starts_with("/api/")) require(response.status >= 400);
  return 0;
}
