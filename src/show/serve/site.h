// The site as a function from requests to responses; http.h handles the sockets.
//
//   /                                     the explorer, from a folder of built files
//   /live/                                the live page
//   /api/runs                             all runs with status and progress
//   /api/runs/<run>/config                config.yaml, also as JSON
//   /api/runs/<run>/metrics?from=N        rows from a byte offset on, and the next offset
//   /api/runs/<run>/results               results.json
//   /api/runs/<run>/attention             records there are
//   /api/runs/<run>/attention?sample=N&length=T   a record, computed where there is none
//   /api/runs/<run>/attention/<file>      the record's example and maps, as the report has them
//   /api/compare                          posenc compare, as JSON
//
// <run> is the run's path below the folder; without it, the folder itself. Nothing is ever written.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "serve/attention_jobs.h"
#include "serve/request.h"
#include "serve/response.h"
#include "serve/run_list.h"

namespace posenc::serve {

struct SiteOptions {
  std::string folder;  // with the runs
  std::string web;  // the explorer's built files; empty or missing: a page that says how to get it
  AttentionProgram attention;
  std::chrono::milliseconds keep_list{500};  // how old the list of runs may be
  std::chrono::milliseconds keep_comparison{2000};
};

class Site {
 public:
  explicit Site(SiteOptions options);

  // From any thread. Never throws: what goes wrong is a response too.
  Response handle(const Request& request);
  // Asks a program that computes attention to end, and does not wait.
  void end() { jobs_.end(); }

 private:
  using Names = std::span<const std::string>;

  Response route(const Request& request, const Target& target);
  Response api(const Request& request, const Target& target);
  Response runs();
  Response compare();
  Response run_part(const Target& target);
  Response attention(const RunPath& path, const Folder& run, const Target& target);
  [[nodiscard]] Response explorer(const Request& request, const Target& target) const;

  SiteOptions options_;
  RunReader reader_;  // under list_'s lock
  KeptText list_;
  KeptText comparison_;
  std::mutex reading_;  // one record at a time: it is read whole
  AttentionJobs jobs_;
};

}  // namespace posenc::serve
