#include "serve/listen.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "posenc/core/error.h"

namespace posenc::serve {
namespace {

constexpr int kBacklog = 256;

template <class Address>
Descriptor bound_socket(int family, const Address& address) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.number() < 0) return socket;
  const int yes = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  }
  const bool heard =
      ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(socket.number(), kBacklog) == 0;
  const int why = errno;
  if (!heard) socket = Descriptor();
  errno = why;
  return socket;
}

int port_of(const Descriptor& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

Error port_error(int port, int error_number) {
  const bool taken = error_number == EADDRINUSE;
  return {ErrorKind::kIo,
          {.scope = "serve",
           .key = fmt::format("port {}", port),
           .rule = taken ? "is taken by another program"
                         : "cannot be used: " + std::generic_category().message(error_number),
           .value = "",
           .hint = "choose another with --port, or let the system choose with --port 0"}};
}

}  // namespace

Listening listen_on_loopback(int port) {
  Listening listening;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(static_cast<std::uint16_t>(port));
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  listening.sockets.push_back(bound_socket(AF_INET, four));
  if (listening.sockets.front().number() < 0) throw port_error(port, errno);
  listening.port = port_of(listening.sockets.front());
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(listening.port));
  six.sin6_addr = in6addr_loopback;
  Descriptor second = bound_socket(AF_INET6, six);
  if (second.number() >= 0) listening.sockets.push_back(std::move(second));
  return listening;
}

}  // namespace posenc::serve
