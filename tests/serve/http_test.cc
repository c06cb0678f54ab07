// The real server on a free port of 127.0.0.1: garbage, silence, floods and crowds.
#include "serve/http.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "posenc/core/error.h"
#include "serve/client.h"
#include "serve/listen.h"
#include "serve/site_case.h"

namespace posenc::testing {
namespace {

using nlohmann::json;

class ServeHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!serve::http_available()) GTEST_SKIP() << "built without libmicrohttpd";
    write_content(case_.outside("web/big.txt"), std::string(kBig, 'x'));
    start({.port = 0});
  }
  void start(const serve::HttpOptions& options) {
    server_.reset();
    site_ = std::make_unique<serve::Site>(case_.options());
    server_ = std::make_unique<serve::HttpServer>(
        options, [this](const serve::Request& request) { return site_->handle(request); });
  }
  // A proper request still gets its answer.
  void expect_alive(const std::string& after) {
    Client client(server_->port());
    ASSERT_TRUE(client.say(get_text("/api/runs/a/metrics")));
    const std::string answer = client.answer();
    EXPECT_EQ(status_of(answer), 200) << "after " << after << ": " << answer;
    EXPECT_NE(answer.find("\"rows\": [{\"kind\":\"train\""), std::string::npos) << answer;
  }
  std::string ask(const std::string& text) {
    Client client(server_->port());
    client.say(text);
    return client.answer();
  }

  static constexpr std::size_t kBig = 8U << 20U;
  SiteCase case_;
  std::unique_ptr<serve::Site> site_;
  std::unique_ptr<serve::HttpServer> server_;
};

TEST_F(ServeHttp, ListensToThisMachineAlone) {
  const serve::Listening listening = serve::listen_on_loopback(0);
  EXPECT_GT(listening.port, 0);
  for (const auto& socket : listening.sockets) {
    sockaddr_in6 address{};
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    if (address.sin6_family == AF_INET6) {
      EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(&address.sin6_addr));
    } else {
      EXPECT_EQ(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr,
                htonl(INADDR_LOOPBACK));
    }
  }
}

TEST_F(ServeHttp, ATakenPortIsAnError) {
  try {
    const serve::HttpServer second({.port = server_->port()},
                                   [](const serve::Request&) { return serve::Response{}; });
    FAIL() << "two servers on one port";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is taken by another program"), std::string::npos);
  }
}

TEST_F(ServeHttp, AnswersGetAndHeadOnOneConnection) {
  Client client(server_->port());
  ASSERT_TRUE(client.say(get_text("/deep/lib.wasm")));
  const std::string file = client.answer();
  EXPECT_EQ(status_of(file), 200);
  EXPECT_NE(file.find("Content-Type: application/wasm"), std::string::npos);
  EXPECT_EQ(file.substr(file.size() - 4), std::string("\0asm", 4));
  ASSERT_TRUE(client.say(get_text("/") + get_text("/none")));  // both at once
  EXPECT_EQ(status_of(client.answer()), 200);
  EXPECT_EQ(status_of(client.answer()), 404);
  ASSERT_TRUE(client.say("HEAD /big.txt HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n"));
  const std::string head = client.rest();
  EXPECT_EQ(status_of(head), 200);
  EXPECT_NE(head.find("Content-Length: 8388608"), std::string::npos);
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
}

TEST_F(ServeHttp, TargetsArriveAsTheyWereSent) {
  for (const char* trick : {"/%2e%2e/secret.txt", "/../secret.txt", "/deep/..%2f..%2fsecret.txt",
                            "//secret.txt", "/deep%2flib.wasm", "/%00", "/a?x=%", "/\\..\\x"}) {
    const std::string answer = ask(get_text(trick));
    EXPECT_EQ(status_of(answer), 400) << trick << ": " << answer;
    EXPECT_EQ(answer.find(kSecret), std::string::npos);
  }
  EXPECT_EQ(status_of(ask(get_text("/api/runs/group/b%20c/config"))), 200);
}

TEST_F(ServeHttp, ForeignHostsAndOriginsAreRefused) {
  const auto with_host = [&](const std::string& lines) {
    return status_of(ask("GET /api/runs HTTP/1.1\r\n" + lines + "\r\n"));
  };
  EXPECT_EQ(with_host("Host: localhost\r\n"), 200);
  EXPECT_EQ(with_host("host: LOCALHOST:9\r\n"), 200);
  EXPECT_EQ(with_host("Host: evil.example\r\n"), 403);
  EXPECT_EQ(with_host("Host: localhost\r\nHost: evil.example\r\n"), 403);
  EXPECT_EQ(with_host("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n"), 403);
  EXPECT_EQ(with_host(""), 400);
  EXPECT_EQ(status_of(ask("GET /api/runs HTTP/1.0\r\n\r\n")), 400);
}

TEST_F(ServeHttp, SurvivesGarbage) {
  start({.port = 0, .idle_seconds = 1});
  std::mt19937_64 random(3);
  std::string noise(65536, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  std::string many_headers = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 20000; ++i) many_headers += "X" + std::to_string(i) + ": y\r\n";
  const std::string host = "Host: localhost\r\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nothing", ""},
      {"empty lines", "\r\n\r\n\r\n\r\n"},
      {"one letter", "G"},
      {"noise", noise},
      {"zeros", std::string(100000, '\0')},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {"unknown method", "FROB / HTTP/1.1\r\n" + host + "\r\n"},
      {"TRACE", "TRACE / HTTP/1.1\r\n" + host + "\r\n"},
      {"CONNECT", "CONNECT evil.example:443 HTTP/1.1\r\n" + host + "\r\n"},
      {"absolute target", "GET http://evil.example/ HTTP/1.1\r\n" + host + "\r\n"},
      {"star", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n"},
      {"no version", "GET /\r\n\r\n"},
      {"odd version", "GET / HTTP/9.9\r\n" + host + "\r\n"},
      {"lone newlines", "GET / HTTP/1.1\nHost: localhost\n\n"},
      {"NUL in the path", std::string("GET /a\0b HTTP/1.1\r\n", 19) + host + "\r\n"},
      {"NUL in a header", "GET / HTTP/1.1\r\n" + host + std::string("X: a\0b\r\n\r\n", 10)},
      {"header without colon", "GET / HTTP/1.1\r\n" + host + "nonsense\r\n\r\n"},
      {"folded header", "GET / HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n"},
      {"megabyte target", "GET /" + std::string(1U << 20U, 'a') + " HTTP/1.1\r\n" + host + "\r\n"},
      {"megabyte header", "GET / HTTP/1.1\r\n" + host + "X: " + std::string(1U << 20U, 'a')},
      {"many headers", many_headers + "\r\n"},
      {"body that is not sent",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999\r\n\r\n"},
      {"megabytes of body", "PUT / HTTP/1.1\r\n" + host + "Content-Length: 4194304\r\n\r\n" +
                                std::string(4U << 20U, 'b')},
      {"GET with a body", "GET / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"},
      {"negative length", "GET / HTTP/1.1\r\n" + host + "Content-Length: -5\r\n\r\n"},
      {"two lengths",
       "GET / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
      {"length and chunks", "GET / HTTP/1.1\r\n" + host +
                                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"chunk of all memory",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc"},
      {"many chunks", "GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" +
                          [] {
                            std::string text;
                            for (int i = 0; i < 100000; ++i) text += "1\r\nx\r\n";
                            return text;
                          }()},
      {"junk after a request", get_text("/") + noise},
      {"expectation",
       "PUT / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"},
      {"upgrade",
       "GET / HTTP/1.1\r\n" + host + "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
      {"absurd range", get_text("/big.txt", "Range: bytes=9999999999-0\r\nConnection: close\r\n")},
  };
  for (const auto& [name, text] : cases) {
    Client client(server_->port());
    client.say(text);
    client.close_writing();
    const std::string answer = client.rest();
    EXPECT_EQ(answer.find(kSecret), std::string::npos) << name;
    expect_alive(name);
  }
}

TEST_F(ServeHttp, RefusalsHaveTheirCodes) {
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(status_of(ask("POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc")), 405);
  EXPECT_EQ(status_of(ask("DELETE /api/runs/a HTTP/1.1\r\n" + host + "\r\n")), 405);
  EXPECT_EQ(status_of(ask("GET / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc")), 413);
  EXPECT_EQ(
      status_of(ask("GET / HTTP/1.1\r\n" + host + "X: " + std::string(40000, 'a') + "\r\n\r\n")),
      431);
  EXPECT_TRUE(std::filesystem::exists(case_.root() + "/a/status.json"));
}

// Half of a request and then nothing: the others are served, and in the end these are let go.
TEST_F(ServeHttp, SilentClientsAreLetGo) {
  start({.port = 0, .idle_seconds = 1});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(std::make_unique<Client>(server_->port()));
    silent.back()->say(i % 2 == 0 ? "GET / HT" : "GET / HTTP/1.1\r\nHost: localh");
  }
  expect_alive("40 silent clients");
  for (const auto& client : silent)
    EXPECT_EQ(status_of(client->rest()) / 100 % 4, 0);  // 4xx or none
}

// A byte now and then is no idle connection, but no request either.
TEST_F(ServeHttp, DrippingClientsAreLetGo) {
  start({.port = 0, .request_seconds = 1});
  Client client(server_->port());
  ASSERT_TRUE(client.say("GET / HTTP/1.1\r\nHost: localhost\r\nX: "));
  EXPECT_TRUE(eventually([&] { return !client.say("x"); }));
  expect_alive("a dripping client");
}

TEST_F(ServeHttp, ClientsThatDoNotReadHoldUpNobody) {
  std::vector<std::unique_ptr<Client>> lazy;
  for (int i = 0; i < 20; ++i) {
    lazy.push_back(std::make_unique<Client>(server_->port()));
    ASSERT_TRUE(lazy.back()->say(get_text("/big.txt")));
  }
  expect_alive("20 clients that do not read");
  const std::string whole = lazy.front()->answer();
  EXPECT_EQ(whole.substr(whole.find("\r\n\r\n") + 4), std::string(kBig, 'x'));
}

TEST_F(ServeHttp, MoreConnectionsThanAllowedWaitTheirTurn) {
  start({.port = 0, .threads = 2, .connections = 8, .idle_seconds = 1});
  std::vector<std::unique_ptr<Client>> holding;
  for (int i = 0; i < 30; ++i) holding.push_back(std::make_unique<Client>(server_->port()));
  expect_alive("more connections than allowed");
}

TEST_F(ServeHttp, TwoHundredClientsAtOnce) {
  constexpr int kClients = 200;
  constexpr int kRounds = 5;
  std::atomic<int> right = 0;
  std::atomic<bool> go = false;
  const std::string expected_file = std::string("\0asm", 4);
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      while (!go) std::this_thread::yield();
      try {
        Client client(server_->port());
        for (int round = 0; round < kRounds; ++round) {
          const std::vector<std::pair<std::string, std::string>> asked = {
              {"/api/runs", "\"path\":\"group/b c\""},
              {"/api/runs/a/metrics", "\"step\":2"},
              {"/deep/lib.wasm", expected_file},
              {"/api/runs/a/config", "rope-0"},
              {"/", "<p>explorer"}};
          const auto& [target, content] = asked[static_cast<std::size_t>(i + round) % asked.size()];
          client.say(get_text(target));
          const std::string answer = client.answer();
          if (status_of(answer) == 200 && answer.find(content) != std::string::npos) ++right;
        }
      } catch (const std::exception&) {  // counts as wrong
      }
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kClients * kRounds);
}

// A page that follows a training: rows arrive while they are written.
TEST_F(ServeHttp, RowsArriveWhileTheyAreWritten) {
  constexpr int kLast = 60;
  std::thread writer([&] {
    for (int step = 3; step <= kLast; ++step) {
      std::ofstream(case_.root() + "/a/metrics.jsonl", std::ios::app) << SiteCase::row(step);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  Client client(server_->port());
  std::vector<int> steps;
  std::string from = "0";
  const bool all = eventually([&] {
    client.say(get_text("/api/runs/a/metrics?from=" + from));
    const std::string answer = client.answer();
    const json part = json::parse(answer.substr(answer.find("\r\n\r\n") + 4));
    for (const json& row : part["rows"]) steps.push_back(row["step"]);
    from = std::to_string(int{part["next"]});
    return !steps.empty() && steps.back() == kLast;
  });
  writer.join();
  ASSERT_TRUE(all);
  ASSERT_EQ(steps.size(), std::size_t{kLast});
  for (int i = 0; i < kLast; ++i) EXPECT_EQ(steps[static_cast<std::size_t>(i)], i + 1);
}

TEST_F(ServeHttp, EndsWhileClientsAreConnected) {
  Client idle(server_->port());
  Client partial(server_->port());
  partial.say("GET / HT");
  server_.reset();
  EXPECT_EQ(idle.rest(), "");
  EXPECT_EQ(status_of(partial.rest()), 0);
}

}  // namespace
}  // namespace posenc::testing
