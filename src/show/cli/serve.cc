// posenc serve: the explorer and live runs in a browser, on this machine alone.
#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "cli/print.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "posenc/core/error.h"
#include "serve/http.h"
#include "serve/site.h"
#include "system/installed.h"
#include "system/stop_request.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "runs";

struct ServeOptions {
  std::string folder = kDefaultFolder;
  std::string web;
  std::string lab;
  int port = 8080;
};

// In a source tree build/release/bin/posenc has build/web/dist, installed bin/posenc has share/posenc/explorer.
std::string find_web(const std::string& given) {
  if (!given.empty()) return given;
  for (const fs::path& candidate :
       {shared_folder() / "explorer", program_folder() / "../../web/dist"}) {
    std::error_code ignored;
    if (fs::exists(candidate / "index.html", ignored)) return candidate.string();
  }
  return "";
}

void require_folder(const std::string& folder, const char* hint) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return;
  throw Error(
      ErrorKind::kIo,
      {.scope = "serve", .key = folder, .rule = "is not a folder", .value = "", .hint = hint});
}

// The process is gone after this time, whatever a request still computes or waits for.
void end_within(std::chrono::milliseconds time) {
  std::thread([time] {
    std::this_thread::sleep_for(time);
    std::_Exit(kFine);
  }).detach();
}

int run_serve(const ServeOptions& options) {
  // The folder that runs go to by default may come later.
  if (options.folder != kDefaultFolder) {
    require_folder(options.folder, "name the folder that runs are in");
  }
  if (!options.web.empty()) require_folder(options.web, "make web builds the explorer");
  StopRequest stop;
  serve::SiteOptions site_options;
  site_options.folder = options.folder;
  site_options.web = find_web(options.web);
  site_options.attention.words = {
      options.lab.empty() ? (program_folder() / "posenc-lab").string() : options.lab, "attention"};
  serve::Site site(site_options);
  const serve::HttpServer server(
      {.port = options.port}, [&](const serve::Request& request) { return site.handle(request); });
  print("serving {} at http://127.0.0.1:{}/ (runs at /live/; Ctrl-C ends)\n", options.folder,
        server.port());
  std::fflush(stdout);
  while (!stop.requested()) ::poll(nullptr, 0, 200);  // a signal ends it early
  end_within(std::chrono::milliseconds(1600));        // programs get SIGKILL after one second
  site.end();
  return kFine;
}

}  // namespace

void add_serve(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("serve", "Serve the explorer and live runs to a browser on this machine");
  auto options = std::make_shared<ServeOptions>();
  verb->add_option("DIR", options->folder, "folder with runs")->capture_default_str();
  verb->add_option("--port", options->port, "on 127.0.0.1 and ::1; 0: a free one")
      ->check(command::integer_in(0, 65535))
      ->capture_default_str();
  verb->add_option("--web", options->web,
                   "the explorer's built files (default: where make web puts them)");
  verb->add_option("--lab", options->lab, "program that computes attention (default: posenc-lab)");
  verb->footer("Example:\n  posenc serve runs --port 0\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_serve(*options); }; });
}

}  // namespace posenc::cli
