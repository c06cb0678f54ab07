#include "serve/http.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/error.h"
#include "serve/deadlines.h"
#include "serve/listen.h"

namespace posenc::serve {
namespace {

// What the daemons' callbacks get.
struct Context {
  Handler handler;
  Deadlines deadlines;
};

// One request, from its first line to its end.
struct Exchange {
  std::string target;
  bool headers_seen = false;
};

// New threads inherit it: signals are for the thread that started the server, and a client that went
// away is an error of write().
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  SignalsBlocked(SignalsBlocked&&) = delete;
  SignalsBlocked& operator=(SignalsBlocked&&) = delete;

 private:
  sigset_t old_{};
};

int socket_of(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == nullptr ? -1 : static_cast<int>(info->connect_fd);
}

void* on_first_line(void* /*context*/, const char* target, MHD_Connection* /*connection*/) {
  return new (std::nothrow) Exchange{target, false};
}

void on_completed(void* context, MHD_Connection* connection, void** exchange,
                  MHD_RequestTerminationCode /*why*/) {
  delete static_cast<Exchange*>(*exchange);
  *exchange = nullptr;
  static_cast<Context*>(context)->deadlines.start(socket_of(connection));
}

void on_connection(void* context, MHD_Connection* connection, void** /*socket_context*/,
                   MHD_ConnectionNotificationCode what) {
  Deadlines& deadlines = static_cast<Context*>(context)->deadlines;
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    deadlines.start(socket_of(connection));
  } else {
    deadlines.forget(socket_of(connection));
  }
}

// The target stays as it was sent: what it means is parse_target's business.
std::size_t leave_escaped(void* /*context*/, MHD_Connection* /*connection*/, char* text) {
  return std::strlen(text);
}

struct HeaderSearch {
  std::string_view name;
  std::string values;
  bool found = false;
};

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

MHD_Result collect(void* search_pointer, MHD_ValueKind /*kind*/, const char* name,
                   const char* value) {
  auto& search = *static_cast<HeaderSearch*>(search_pointer);
  if (same_name(name, search.name)) {
    if (std::exchange(search.found, true)) search.values += ",";
    search.values += value == nullptr ? "" : value;
  }
  return MHD_YES;
}

// All headers of a name, joined by commas.
HeaderSearch header(MHD_Connection* connection, std::string_view name) {
  HeaderSearch search{name, "", false};
  MHD_get_connection_values(connection, MHD_HEADER_KIND, collect, &search);
  return search;
}

Request read_request(MHD_Connection* connection, const char* method, const Exchange& exchange) {
  Request request;
  request.method = method;
  request.target = exchange.target;
  request.host = header(connection, "Host").values;
  request.fetch_site = header(connection, "Sec-Fetch-Site").values;
  request.origin = header(connection, "Origin").values;
  request.if_none_match = header(connection, "If-None-Match").values;
  const HeaderSearch length = header(connection, "Content-Length");
  request.has_body =
      (length.found && length.values != "0") || header(connection, "Transfer-Encoding").found;
  return request;
}

MHD_Response* make_response(const Response& response) {
  if (response.file) {
    const int copy = ::fcntl(response.file->descriptor.number(), F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? nullptr : MHD_create_response_from_fd64(response.file->size, copy);
  }
  return MHD_create_response_from_buffer(
      response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
}

MHD_Result send(MHD_Connection* connection, const Response& response) {
  MHD_Response* sent = make_response(response);
  if (sent == nullptr) return MHD_NO;
  for (const auto& [name, value] : response.headers) {
    MHD_add_response_header(sent, name.c_str(), value.c_str());
  }
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), sent);
  MHD_destroy_response(sent);
  return queued;
}

// Called when the headers are there and again when the request is complete. An answer at the first call
// closes the connection afterwards: right for requests with a body, which is never read.
MHD_Result on_request(void* context, MHD_Connection* connection, const char* /*url*/,
                      const char* method, const char* /*version*/, const char* /*upload*/,
                      std::size_t* upload_size, void** exchange_pointer) {
  auto* exchange = static_cast<Exchange*>(*exchange_pointer);
  if (exchange == nullptr) return MHD_NO;
  try {
    const Request request = read_request(connection, method, *exchange);
    if (!std::exchange(exchange->headers_seen, true) && !request.has_body) return MHD_YES;
    *upload_size = 0;
    return send(connection, static_cast<Context*>(context)->handler(request));
  } catch (const std::exception&) {  // no memory: this connection ends, the others go on
    return MHD_NO;
  }
}

MHD_Daemon* start_daemon(const HttpOptions& options, int socket, unsigned threads,
                         Context* context) {
  const SignalsBlocked blocked;
  return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, nullptr, nullptr, on_request, context,
                          MHD_OPTION_LISTEN_SOCKET, static_cast<MHD_socket>(socket),          //
                          MHD_OPTION_THREAD_POOL_SIZE, threads,                               //
                          MHD_OPTION_CONNECTION_LIMIT, options.connections,                   //
                          MHD_OPTION_CONNECTION_TIMEOUT, options.idle_seconds,                //
                          MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.memory_per_connection,  //
                          MHD_OPTION_URI_LOG_CALLBACK, on_first_line, context,                //
                          MHD_OPTION_NOTIFY_COMPLETED, on_completed, context,                 //
                          MHD_OPTION_NOTIFY_CONNECTION, on_connection, context,               //
                          MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, nullptr, MHD_OPTION_END);
}

}  // namespace

struct HttpServer::Parts {
  Parts(const HttpOptions& options, Handler handler)
      : context{std::move(handler), Deadlines(std::chrono::seconds(options.request_seconds))} {}
  ~Parts() {
    for (MHD_Daemon* daemon : daemons) MHD_stop_daemon(daemon);
  }
  Parts(Parts&&) = delete;
  Parts& operator=(Parts&&) = delete;

  Context context;
  int port = 0;
  std::vector<MHD_Daemon*> daemons;
};

bool http_available() { return true; }

HttpServer::HttpServer(const HttpOptions& options, Handler handler)
    : parts_(std::make_unique<Parts>(options, std::move(handler))) {
  Listening listening = listen_on_loopback(options.port);
  parts_->port = listening.port;
  for (Descriptor& socket : listening.sockets) {
    MHD_Daemon* daemon = start_daemon(options, ::fcntl(socket.number(), F_DUPFD_CLOEXEC, 0),
                                      options.threads, &parts_->context);
    if (daemon == nullptr) {
      throw Error(ErrorKind::kResource, {.scope = "serve",
                                         .key = "",
                                         .rule = "cannot start its threads",
                                         .value = "",
                                         .hint = "check the limits on files and processes"});
    }
    parts_->daemons.push_back(daemon);
  }
}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return parts_->port; }

}  // namespace posenc::serve
