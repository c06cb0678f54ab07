// Built where GNU libmicrohttpd is not installed.
#include "posenc/core/error.h"
#include "serve/http.h"

namespace posenc::serve {

struct HttpServer::Parts {};

bool http_available() { return false; }

HttpServer::HttpServer(const HttpOptions& /*options*/, Handler /*handler*/) {
  throw Error(ErrorKind::kUnsupported,
              {.scope = "serve",
               .key = "",
               .rule = "is not in this build: GNU libmicrohttpd was missing",
               .value = "",
               .hint = "install Debian's libmicrohttpd-dev and build again"});
}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return 0; }

}  // namespace posenc::serve
