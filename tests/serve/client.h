// A client on 127.0.0.1 that can say anything, well-formed or not.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace posenc::testing {

class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{60, 0};  // a test that would hang fails instead
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(socket_);
      throw std::runtime_error("no connection");
    }
  }
  ~Client() { ::close(socket_); }
  Client(Client&&) = delete;
  Client& operator=(Client&&) = delete;

  // False once the server no longer listens to us.
  bool say(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
  void close_writing() const { ::shutdown(socket_, SHUT_WR); }

  // One answer: its head and its body by Content-Length. What is there where the connection ends.
  std::string answer() {
    while (kept_.find("\r\n\r\n") == std::string::npos) {
      if (!more()) return std::exchange(kept_, "");
    }
    const std::size_t head = kept_.find("\r\n\r\n") + 4;
    const std::size_t at = kept_.find("Content-Length: ");
    const std::size_t length = at < head ? std::strtoull(kept_.c_str() + at + 16, nullptr, 10) : 0;
    while (kept_.size() < head + length && more()) {
    }
    const std::string whole = kept_.substr(0, head + length);
    kept_.erase(0, whole.size());
    return whole;
  }
  // Everything until the server closes the connection.
  std::string rest() {
    while (more()) {
    }
    return std::exchange(kept_, "");
  }

 private:
  bool more() {
    char buffer[65536];
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
    if (n > 0) kept_.append(buffer, static_cast<std::size_t>(n));
    return n > 0;
  }

  int socket_;
  std::string kept_;
};

inline std::string get_text(const std::string& target, const std::string& headers = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + "\r\n";
}

// "HTTP/1.1 404 Not Found..." has 404.
inline int status_of(const std::string& answer) {
  return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
}

}  // namespace posenc::testing
