// Routes, refusals and what the API says, without a socket.
#include "serve/site.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "draw/colors.h"
#include "runs/run_directory.h"
#include "serve/assets.h"
#include "serve/site_case.h"
#include "support/sanitizers.h"

namespace posenc::testing {
namespace {

using nlohmann::json;
using serve::Request;
using serve::Response;
namespace fs = std::filesystem;

class ServeSite : public ::testing::Test {
 protected:
  Response ask(const std::string& target) { return site_.handle(get(target)); }
  json ask_json(const std::string& target) {
    const Response response = ask(target);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.header("Content-Type"), "application/json");
    EXPECT_EQ(response.header("Cache-Control"), "no-store");
    return json_of(response);
  }
  SiteCase case_;
  serve::Site site_{case_.options()};
};

TEST_F(ServeSite, ListsRunsWithStatusAndProgress) {
  const json j = ask_json("/api/runs");
  ASSERT_EQ(j["runs"].size(), 2U);
  const json& a = j["runs"][0];
  EXPECT_EQ(a["path"], "a");
  EXPECT_EQ(a["url"], "/api/runs/a/");
  EXPECT_EQ(a["status"]["state"], "finished");
  EXPECT_EQ(a["in_use"], false);
  EXPECT_EQ(a["encoding"], "rope");
  EXPECT_EQ(a["task"], "selective_counting");
  EXPECT_EQ(a["progress"]["total"], 100);
  EXPECT_EQ(a["progress"]["loss"], 0.5);
  EXPECT_TRUE(a["progress"]["seconds_left"].is_null());
  EXPECT_EQ(a["evaluated"], true);
  const json& b = j["runs"][1];
  EXPECT_EQ(b["url"], "/api/runs/group/b%20c/");
  EXPECT_EQ(b["status"]["message"], "by hand");
  EXPECT_EQ(b["seed"], 3);
}

TEST_F(ServeSite, ARunThatIsWrittenToGoesOn) {
  auto run = runs::RunDirectory::open(case_.root() + "/a");
  run.set_status({runs::RunState::kRunning, 0, "", "0"});
  json a = ask_json("/api/runs")["runs"][0];
  EXPECT_EQ(a["in_use"], true);
  EXPECT_EQ(a["progress"]["step"], 2);
  EXPECT_EQ(a["progress"]["seconds_left"], 196.0);  // 98 steps of 2 s
  std::ofstream(case_.root() + "/a/metrics.jsonl", std::ios::app) << SiteCase::row(52);
  EXPECT_EQ(ask_json("/api/runs")["runs"][0]["progress"]["step"], 52);
}

TEST_F(ServeSite, ADamagedRunIsListedWithItsError) {
  write_content(case_.root() + "/a/status.json", "{\"state\": 7");
  write_content(case_.root() + "/group/b c/config.yaml", "train: [");
  const json j = ask_json("/api/runs");
  ASSERT_EQ(j["runs"].size(), 2U);
  EXPECT_NE(std::string(j["runs"][0]["error"]).find("[status.json] is not JSON"),
            std::string::npos);
  EXPECT_EQ(j["runs"][1]["status"]["state"], "stopped");
  EXPECT_TRUE(j["runs"][1]["progress"]["total"].is_null());
}

TEST_F(ServeSite, PartsOfARun) {
  EXPECT_EQ(ask_json("/api/runs/a/config")["config"]["name"], "rope-0");
  EXPECT_EQ(ask_json("/api/runs/group/b%20c/config")["config"]["seed"], 3);
  EXPECT_EQ(ask_json("/api/runs/a/results")["metric"], "accuracy");
  EXPECT_EQ(ask("/api/runs/group/b%20c/results").status, 404);
  const json metrics = ask_json("/api/runs/a/metrics");
  EXPECT_EQ(metrics["rows"].size(), 2U);
  const auto next = std::to_string(int{metrics["next"]});
  EXPECT_TRUE(ask_json("/api/runs/a/metrics?from=" + next)["rows"].empty());
  EXPECT_TRUE(ask_json("/api/runs/group/b%20c/metrics?from=0")["rows"].empty());
  for (const char* bad : {"?from=-1", "?from=x", "?from=", "?to=1", "?from=1&from=1"}) {
    EXPECT_EQ(ask("/api/runs/a/metrics" + std::string(bad)).status, 400) << bad;
  }
  for (const char* bad : {"/api", "/api/runs/b/config", "/api/runs/group/config", "/api/runs/a/b",
                          "/api/runs/a/config/x", "/api/other", "/api/runs/a/checkpoints/x"}) {
    EXPECT_EQ(ask(bad).status, 404) << bad;
  }
}

TEST_F(ServeSite, TheFolderMayBeARunItself) {
  serve::SiteOptions options = case_.options();
  options.folder += "/a";
  serve::Site site(options);
  const json j = json_of(site.handle(get("/api/runs")));
  ASSERT_EQ(j["runs"].size(), 1U);
  EXPECT_EQ(j["runs"][0]["url"], "/api/runs/");
  EXPECT_EQ(json_of(site.handle(get("/api/runs/metrics")))["rows"].size(), 2U);
}

TEST_F(ServeSite, AFolderThatIsNotThereHasNoRuns) {
  fs::remove_all(case_.root());
  EXPECT_TRUE(ask_json("/api/runs")["runs"].empty());
  EXPECT_TRUE(ask_json("/api/compare")["tasks"].empty());
  EXPECT_EQ(ask("/api/runs/a/config").status, 404);
}

TEST_F(ServeSite, ComparesWhatTheRunsFound) {
  const json j = ask_json("/api/compare");
  ASSERT_EQ(j["tasks"].size(), 1U);
  EXPECT_EQ(j["tasks"][0]["entries"][0]["encoding"], "rope");
}

TEST_F(ServeSite, PagesAndTheirTypes) {
  EXPECT_EQ(everything(ask("/")).rfind("<p>explorer", 0), 0U);
  EXPECT_EQ(ask("/").header("Server-Timing"), "posenc-live") << "it links to the live page";
  EXPECT_EQ(ask("/deep/lib.wasm").header("Server-Timing"), "");
  EXPECT_EQ(ask("/deep/lib.wasm").header("Content-Type"), "application/wasm");
  EXPECT_EQ(ask("/deep").status, 404);
  EXPECT_EQ(ask("/deep/").status, 404);
  EXPECT_EQ(ask("/index.html").header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(ask("/live").header("Location"), "/live/");
  EXPECT_NE(ask("/live/").body.find("<html"), std::string::npos);
  EXPECT_EQ(ask("/live/live.js").body, serve::page_script());
  EXPECT_EQ(ask("/live/live.css").body, serve::page_style());
  for (const char* name : {"live.html", "live.js", "live.css", "icon.svg", "uplot_license.txt"}) {
    const Response response = ask("/live/" + std::string(name));
    EXPECT_GT(response.body.size(), 100U) << name;
    EXPECT_NE(response.header("Content-Type"), "application/octet-stream") << name;
  }
  EXPECT_EQ(ask("/live/none.js").status, 404);
  const json colors = ask_json("/live/colors.json");
  EXPECT_EQ(colors["curves"]["dark"][0], draw::css(draw::palette(0, draw::Theme::kDark)));
  EXPECT_EQ(std::string(colors["sequential"]["light"]).size(), 1024U) << "768 bytes";
  Request again = get("/");
  again.if_none_match = ask("/").header("ETag");
  EXPECT_EQ(site_.handle(again).status, 304);
}

TEST_F(ServeSite, WithoutAnExplorerThePageSaysHowToBuildIt) {
  serve::SiteOptions options = case_.options();
  for (const char* web : {"", "/nonexistent"}) {
    options.web = web;
    serve::Site site(options);
    const Response response = site.handle(get("/"));
    EXPECT_EQ(response.status, 200);
    EXPECT_NE(response.body.find("make web"), std::string::npos);
    EXPECT_NE(response.body.find("/live/"), std::string::npos);
    EXPECT_EQ(site.handle(get("/index.html")).status, 404);
  }
}

TEST_F(ServeSite, EveryAnswerForbidsWhatItCan) {
  for (const char* target : {"/", "/live/", "/api/runs", "/none", "/..", "/deep/lib.wasm"}) {
    const Response response = ask(target);
    EXPECT_NE(response.header("Content-Security-Policy").find("default-src 'self'"),
              std::string::npos);
    EXPECT_EQ(response.header("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(response.header("Referrer-Policy"), "no-referrer");
  }
}

TEST_F(ServeSite, MethodsHostsOriginsAndBodies) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", ""}) {
    Request request = get("/api/runs");
    request.method = method;
    EXPECT_EQ(site_.handle(request).status, 405) << method;
    EXPECT_EQ(site_.handle(request).header("Allow"), "GET, HEAD");
  }
  Request request = get("/api/runs");
  request.method = "HEAD";
  EXPECT_EQ(site_.handle(request).status, 200);
  request.host = "rebound.example.org:8080";
  EXPECT_EQ(site_.handle(request).status, 403);
  request.host = "";
  EXPECT_EQ(site_.handle(request).status, 400);
  request = get("/api/runs");
  request.has_body = true;
  EXPECT_EQ(site_.handle(request).status, 413);
  for (const auto& [from, status] : {std::pair{"cross-site", 403}, std::pair{"same-site", 403},
                                     std::pair{"same-origin", 200}, std::pair{"none", 200}}) {
    request = get("/api/runs");
    request.fetch_site = from;
    EXPECT_EQ(site_.handle(request).status, status) << from;
    request.target = "/";  // a link to the page itself is fine
    EXPECT_EQ(site_.handle(request).status, 200) << from;
  }
  for (const auto& [origin, status] :
       {std::pair{"http://localhost:8080", 200}, std::pair{"http://LOCALHOST:8080", 200},
        std::pair{"http://localhost:8081", 403}, std::pair{"http://127.0.0.1:8080", 403},
        std::pair{"https://localhost:8080", 403}, std::pair{"http://evil.example", 403},
        std::pair{"null", 403}, std::pair{"http://localhost:8080,http://evil.example", 403}}) {
    for (const char* target : {"/api/runs", "/api/compare", "/api/runs/a/metrics"}) {
      request = get(target);
      request.origin = origin;
      EXPECT_EQ(site_.handle(request).status, status) << origin << " " << target;
    }
  }
  EXPECT_EQ(ask("/" + std::string(5000, 'a')).status, 414);
}

TEST_F(ServeSite, ErrorsAreJsonOfOneLine) {
  for (const char* target : {"/%ff%0a", "/..", "/api/x", "/api/runs/a/metrics?from=%22",
                             "/api/compare?threshold=0.5", "/api/runs?x=1"}) {
    const std::string text = json_of(ask(target))["error"];
    EXPECT_EQ(text.rfind("[request] ", 0), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST_F(ServeSite, LinksLeadNowhere) {
  const std::string a = case_.root() + "/a";
  fs::create_directory_symlink(case_.outside("elsewhere"), case_.root() + "/out");
  fs::create_directory_symlink(case_.outside("elsewhere/run"), case_.root() + "/linked");
  fs::create_symlink(case_.outside("secret.txt"), case_.outside("web/secret.txt"));
  fs::create_directory_symlink(case_.outside(""), case_.outside("web/up"));
  for (const char* name : {"config.yaml", "metrics.jsonl", "results.json"}) {
    fs::remove(a + "/" + name);
    fs::create_symlink(case_.outside("secret.txt"), a + "/" + name);
  }
  fs::create_symlink(case_.outside("secret.txt"), a + "/attention/train-T8-sample0.safetensors");
  EXPECT_EQ(ask_json("/api/runs")["runs"].size(), 2U);
  EXPECT_EQ(ask_json("/api/runs/a/attention")["records"].size(), 1U);
  for (const char* target :
       {"/api/runs/out/run/metrics", "/api/runs/linked/metrics", "/secret.txt", "/up/secret.txt",
        "/api/runs/a/config", "/api/runs/a/results", "/api/runs/a/metrics",
        "/api/runs/a/attention/train-T8-sample0.safetensors"}) {
    const Response response = ask(target);
    EXPECT_EQ(everything(response).find(kSecret), std::string::npos) << target;
    if (std::string(target) != "/api/runs/a/metrics") {
      EXPECT_EQ(response.status, 404) << target;
    }
  }
  EXPECT_TRUE(ask_json("/api/runs/a/metrics")["rows"].empty());
}

// results.json of a run elsewhere is whole and valid: only the link keeps it out of the comparison.
TEST_F(ServeSite, AComparisonFollowsNoLink) {
  const std::string a = case_.root() + "/a";
  write_run(case_.outside("elsewhere/told"),
            {.encoding = "cope", .rows = {{"train", 1, 0.7, 0.6, 0.8, ""}}});
  EXPECT_NE(ask("/api/compare").body.find("rope"), std::string::npos);
  for (const char* name : {"results.json", "config.yaml", "environment.json"}) {
    const std::string kept = file_content(a + "/" + name);
    fs::remove(a + "/" + name);
    fs::create_symlink(case_.outside("elsewhere/told/") + name, a + "/" + name);
    const Response response = ask("/api/compare");
    EXPECT_EQ(response.status, 200) << name;
    EXPECT_EQ(response.body.find("cope"), std::string::npos) << name << response.body;
    EXPECT_EQ(json_of(response)["left_out"].size(), 2U) << name << response.body;
    fs::remove(a + "/" + name);
    write_content(a + "/" + name, kept);
  }
  // A linked run as a whole, and a lock that is a link.
  fs::create_directory_symlink(case_.outside("elsewhere/told"), case_.root() + "/linked");
  EXPECT_EQ(ask("/api/compare").body.find("cope"), std::string::npos);
  const runs::RunDirectory writing = runs::RunDirectory::open(case_.outside("elsewhere/told"));
  fs::remove(a + "/.lock");
  fs::create_symlink(case_.outside("elsewhere/told/.lock"), a + "/.lock");
  const json listed = ask_json("/api/runs");
  for (const auto& run : listed["runs"]) EXPECT_FALSE(run["in_use"]) << run;
}

TEST_F(ServeSite, PipesAndFoldersInPlaceOfFilesDoNotHangIt) {
  const std::string a = case_.root() + "/a";
  fs::remove(a + "/metrics.jsonl");
  ASSERT_EQ(::mkfifo((a + "/metrics.jsonl").c_str(), 0600), 0);
  fs::remove(a + "/results.json");
  fs::create_directory(a + "/results.json");
  EXPECT_TRUE(ask_json("/api/runs/a/metrics")["rows"].empty());
  EXPECT_EQ(ask("/api/runs/a/results").status, 404);
  EXPECT_EQ(ask_json("/api/runs")["runs"].size(), 2U);
}

// Whatever is asked, nothing of what lies outside comes back, and nothing below changes.
TEST_F(ServeSite, RandomRequestsReachNothing) {
  const auto listing = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(case_.outside(""))) {
      names.push_back(entry.path().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = listing();
  std::mt19937_64 random(11);
  const std::vector<std::string> parts = {
      "/",     "..",    "%2e",    "%2f",       ".",         "api",     "runs",       "a",
      "group", "b%20c", "config", "metrics",   "attention", "?from=1", "secret.txt", "%00",
      "\\",    "%5c",   "live",   "live.html", "results",   "\xff",    "//",         "elsewhere",
      "run",   "?",     "=",      "&",         "%",         "web",     "index.html", "%c0%ae"};
  std::map<int, int> seen;
  constexpr int kRequests = kSanitized ? 3000 : 20000;
  for (int i = 0; i < kRequests; ++i) {
    Request request = get("/");
    for (std::size_t n = random() % 9; n > 0; --n) {
      request.target += parts[random() % parts.size()];
      if (random() % 2 == 0) request.target += "/";
    }
    if (random() % 50 == 0) request.method = parts[random() % parts.size()];
    if (random() % 50 == 0) request.host = parts[random() % parts.size()];
    const Response response = site_.handle(request);
    ++seen[response.status];
    ASSERT_EQ(everything(response).find(kSecret), std::string::npos) << request.target;
    ASSERT_NE(response.status, 500) << request.target << " " << response.body;
  }
  EXPECT_GT(seen[200], kRequests / 200);
  EXPECT_GT(seen[400], kRequests / 20);
  EXPECT_GT(seen[404], kRequests / 20);
  EXPECT_EQ(listing(), before);
}

TEST_F(ServeSite, AListIsMadeOnceForManyWhoAsk) {
  serve::SiteOptions options = case_.options();
  options.keep_list = std::chrono::hours(1);
  serve::Site site(options);
  const std::string before = site.handle(get("/api/runs")).body;
  fs::remove_all(case_.root() + "/a");
  EXPECT_EQ(site.handle(get("/api/runs")).body, before);
  EXPECT_EQ(ask_json("/api/runs")["runs"].size(), 1U);
}

}  // namespace
}  // namespace posenc::testing
