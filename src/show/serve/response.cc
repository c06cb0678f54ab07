#include "serve/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runs/numbers.h"

namespace posenc::serve {
namespace {

// wasm-unsafe-eval: the explorer computes in WebAssembly. Styles in attributes: formulas are set so.
constexpr const char* kContentPolicy =
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".json", "application/json"},
    {".map", "application/json"},
    {".wasm", "application/wasm"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".jpg", "image/jpeg"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
    {".woff", "font/woff"},
    {".ttf", "font/ttf"},
    {".txt", "text/plain; charset=utf-8"},
    {".md", "text/plain; charset=utf-8"},
    {".csv", "text/csv; charset=utf-8"},
}};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string Response::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? "" : found->second;
}

Response json_response(std::string text, int status) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = std::move(text) + "\n",
          .file = std::nullopt};
}

Response json_response(const Value& value, int status) {
  return json_response(to_json(runs::without_non_finite(value)), status);
}

Response error_response(int status, std::string_view text) {
  return json_response({Value::Data(Value::Map{{"error", Value::of_string(std::string(text))}})},
                       status);
}

Response redirect(const std::string& where) {
  Response response = text_response("", "text/plain; charset=utf-8");
  response.status = 308;
  response.headers.emplace_back("Location", where);
  return response;
}

Response text_response(std::string_view text, std::string_view content_type) {
  return {.status = 200,
          .headers = {{"Content-Type", std::string(content_type)}, {"Cache-Control", "no-cache"}},
          .body = std::string(text),
          .file = std::nullopt};
}

Response file_response(File file, std::string_view name, std::string_view if_none_match) {
  const std::string tag = fmt::format("\"{:x}-{:x}\"", file.size, file.modified_ns);
  Response response = text_response("", content_type(name));
  response.headers.emplace_back("ETag", tag);
  if (if_none_match == tag) {
    response.status = 304;
  } else {
    response.file = std::move(file);
  }
  return response;
}

std::string_view content_type(std::string_view name) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& type) { return ends_with(name, type.first); });
  return found == kTypes.end() ? "application/octet-stream" : found->second;
}

void add_security_headers(Response& response) {
  response.headers.insert(response.headers.end(), {{"Content-Security-Policy", kContentPolicy},
                                                   {"X-Content-Type-Options", "nosniff"},
                                                   {"Referrer-Policy", "no-referrer"},
                                                   {"Cross-Origin-Resource-Policy", "same-origin"},
                                                   {"Cross-Origin-Opener-Policy", "same-origin"}});
}

}  // namespace posenc::serve
