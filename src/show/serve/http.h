// HTTP on loopback with GNU libmicrohttpd, which only http.cc uses. If the library is missing, http_missing.cc
// is compiled instead.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "serve/request.h"
#include "serve/response.h"

namespace posenc::serve {

struct HttpOptions {
  int port = 8080;  // 0: a free one
  unsigned threads = 4;
  unsigned connections = 400;                 // further ones wait
  unsigned idle_seconds = 15;                 // without a byte
  unsigned request_seconds = 60;              // for a request and its answer, byte by byte or not
  std::size_t memory_per_connection = 32768;  // longer headers are refused
};

using Handler = std::function<Response(const Request&)>;

// Was this program built with libmicrohttpd?
bool http_available();

class HttpServer {
 public:
  // Answers from here on, on its own threads. Throws if the port is in use, or where
  // http_available() is false.
  HttpServer(const HttpOptions& options, Handler handler);
  ~HttpServer();  // closes all connections
  HttpServer(HttpServer&&) = delete;
  HttpServer& operator=(HttpServer&&) = delete;

  [[nodiscard]] int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace posenc::serve
