// posenc serve as a user meets it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "cli/run_cli.h"
#include "report/run_case.h"
#include "serve/client.h"
#include "serve/http.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

// The program in the background, with its first line.
class Serving {
 public:
  explicit Serving(const std::string& folder, const std::string& lab = "posenc-lab") {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("no process");
    if (id_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(kCliPath, "posenc", "serve", "--port", "0", "--lab", lab.c_str(), folder.c_str(),
              nullptr);
      ::_exit(9);
    }
    ::close(ends[1]);
    for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != '\n';) line_ += c;
    ::close(ends[0]);
  }
  ~Serving() {
    if (id_ > 0) end(SIGKILL);
  }
  Serving(Serving&&) = delete;
  Serving& operator=(Serving&&) = delete;

  [[nodiscard]] const std::string& line() const { return line_; }
  [[nodiscard]] int port() const {
    const std::size_t at = line_.find("127.0.0.1:");
    return at == std::string::npos ? 0 : std::atoi(line_.c_str() + at + 10);
  }
  // The exit code after a signal; -1 where the signal itself ended it.
  int end(int signal) {
    int status = 0;
    ::kill(id_, signal);
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // The same, with time enough for a busy machine; -2 where it is still there then.
  int end_in_time(int signal) {
    ::kill(id_, signal);
    for (int look = 0; look < 2000; ++look) {
      int status = 0;
      if (::waitpid(id_, &status, WNOHANG) == id_) {
        id_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      ::usleep(10'000);
    }
    return -2;
  }

 private:
  pid_t id_ = -1;
  std::string line_;
};

class ServeVerb : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!serve::http_available()) GTEST_SKIP() << "built without libmicrohttpd";
    write_run(folder_ / "a", {.rows = {}});
  }
  TemporaryFolder folder_;
};

TEST_F(ServeVerb, ServesUntilASignalAndThenEndsWell) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Serving serving(folder_.path());
    ASSERT_GT(serving.port(), 0) << serving.line();
    EXPECT_EQ(serving.line(), "serving " + folder_.path() +
                                  " at http://127.0.0.1:" + std::to_string(serving.port()) +
                                  "/ (runs at /live/; Ctrl-C ends)");
    Client client(serving.port());
    ASSERT_TRUE(client.say(get_text("/api/runs")));
    const std::string answer = client.answer();
    EXPECT_EQ(status_of(answer), 200) << answer;
    EXPECT_NE(answer.find("\"url\":\"/api/runs/a/\""), std::string::npos) << answer;
    EXPECT_EQ(serving.end(signal), 0);
  }
}

// A config that takes minutes to parse: each key is compared with all before it. Before, the server waited
// for that.
TEST_F(ServeVerb, ASignalEndsItWhileARequestIsComputed) {
  std::string config;
  for (int i = 0; i < 600'000; ++i) config += "k" + std::to_string(i) + ": 1\n";
  write_content(folder_ / "a/config.yaml", config);
  Serving serving(folder_.path());
  Client client(serving.port());
  ASSERT_TRUE(client.say(get_text("/api/runs/a/config")));
  ::usleep(500'000);  // it has begun
  EXPECT_EQ(serving.end_in_time(SIGTERM), 0);
}

TEST_F(ServeVerb, ASignalEndsItAndAProgramThatIgnoresSignals) {
  write_content(folder_ / "lab", "#!/bin/sh\ntrap '' TERM INT\necho $$ > " + (folder_ / "pid") +
                                     ".new\nmv " + (folder_ / "pid") + ".new " + (folder_ / "pid") +
                                     "\nwhile :; do sleep 0.1; done\n");
  std::filesystem::permissions(folder_ / "lab", std::filesystem::perms::owner_all);
  Serving serving(folder_.path(), folder_ / "lab");
  Client client(serving.port());
  ASSERT_TRUE(client.say(get_text("/api/runs/a/attention?sample=0&length=8")));
  for (int look = 0; look < 2000 && !std::filesystem::exists(folder_ / "pid"); ++look) {
    ::usleep(10'000);
  }
  const pid_t program = std::atoi(file_content(folder_ / "pid").c_str());
  ASSERT_GT(program, 0);
  EXPECT_EQ(serving.end_in_time(SIGTERM), 0);
  EXPECT_NE(::kill(program, 0), 0) << "it lives on";
}

TEST_F(ServeVerb, ASignalEndsItWhileAClientStillReadsAndWrites) {
  Serving serving(folder_.path());
  Client drips(serving.port());
  ASSERT_TRUE(drips.say("GET /api/ru"));
  Client never_reads(serving.port());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(never_reads.say(get_text("/api/runs")));
  EXPECT_EQ(serving.end_in_time(SIGTERM), 0);
}

TEST_F(ServeVerb, MistakesAreOneLineAndExitCode2) {
  Serving serving(folder_.path());
  const auto taken = run("serve " + folder_.path() + " --port " + std::to_string(serving.port()));
  EXPECT_EQ(taken.code, 2);
  EXPECT_EQ(taken.out.rfind("posenc: [serve] port " + std::to_string(serving.port()) +
                                " is taken by another program; ",
                            0),
            0U)
      << taken.out;
  const auto missing = run("serve /nonexistent");
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.out,
            "posenc: [serve] /nonexistent is not a folder; name the folder that runs are in\n");
  EXPECT_EQ(run("serve --port 70000").code, 2);
  EXPECT_EQ(run("serve --web /nonexistent").code, 2);
}

TEST(ServeVerbWithoutTheLibrary, SaysWhatToInstall) {
  if (serve::http_available()) GTEST_SKIP() << "built with libmicrohttpd";
  const auto refused = run("serve --port 0");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.out.find("install Debian's libmicrohttpd-dev"), std::string::npos);
}

}  // namespace
}  // namespace posenc::testing
