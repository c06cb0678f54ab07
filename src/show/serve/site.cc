#include "serve/site.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "posenc/core/error.h"
#include "report/page_maps.h"
#include "report/tables.h"
#include "runs/numbers.h"
#include "serve/assets.h"
#include "serve/attention_records.h"

namespace posenc::serve {
namespace {

constexpr std::size_t kLongestResults = 1U << 26U;

Response not_found(const std::string& what, const std::string& hint = "") {
  return error_response(404, "[request] " + what + (hint.empty() ? "" : "; " + hint));
}

Response refused(const Error& error) {
  return error_response(error.kind() == ErrorKind::kResource ? 414 : 400, error.what());
}

// What must hold before a request is looked at any further.
std::optional<Response> guard(const Request& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    Response response = error_response(405, "[request] method must be GET or HEAD");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  if (request.host.empty()) return error_response(400, "[request] Host is missing");
  if (!is_loopback_host(request.host)) {
    return error_response(
        403,
        "[request] Host must be localhost, 127.0.0.1 or [::1]; this server is for "
        "this machine alone");
  }
  if (request.has_body) return error_response(413, "[request] takes no body");
  return std::nullopt;
}

// A page of another origin may not start a computation or learn whether a run is there.
// Browsers that send no Sec-Fetch-Site send an Origin with what a script asks of another site.
bool foreign(const Request& request) {
  const bool site = !request.fetch_site.empty() && request.fetch_site != "same-origin" &&
                    request.fetch_site != "none";
  return site || (!request.origin.empty() && !is_same_origin(request.origin, request.host));
}

Response live_page(const Target& target) {
  if (target.segments.size() == 1 && !target.folder) return redirect("/live/");
  const std::string name = target.segments.size() == 1 ? "live.html" : target.segments[1];
  if (name == "colors.json") return json_response(report::page_colors());
  const std::string_view content = name == "live.js"    ? page_script()
                                   : name == "live.css" ? page_style()
                                                        : page_file(name);
  if (target.segments.size() > 2 || content.empty()) return not_found("there is no such page");
  return text_response(content, content_type(name));
}

Response config_response(const Folder& run) {
  const auto text = run.text("config.yaml");
  if (!text) return not_found("the run has no config.yaml");
  return json_response({Value::Data(Value::Map{{"config", parse_yaml(*text, "config.yaml")},
                                               {"text", Value::of_string(*text)}})});
}

Response results_response(const Folder& run) {
  auto text = run.text("results.json", kLongestResults);
  if (!text) return not_found("the run has not been evaluated", "posenc eval does that");
  parse_json(*text, "results.json");  // damaged: an error that says so
  return json_response(*std::move(text));
}

// The files of a run for a comparison, none of them through a link.
report::RunFiles files_of(const Folder& run) {
  const auto need = [&](const char* name) {
    auto text = run.text(name, kLongestResults);
    if (text) return *std::move(text);
    throw Error(ErrorKind::kIo, {.scope = name, .rule = "is missing, too long or no regular file"});
  };
  return {.status = need("status.json"),
          .config = need("config.yaml"),
          .environment = need("environment.json"),
          .results = run.text("results.json", kLongestResults),
          .scores = run.text("scores.bin", kLongestResults),
          .in_use = in_use(run)};
}

Response metrics_response(const Folder& run, const Target& target) {
  std::uint64_t from = 0;
  if (!target.query.empty()) {
    constexpr std::int64_t kFarthest = std::int64_t{1} << 53U;
    from = static_cast<std::uint64_t>(read_numbers(target, {{"from", 0, kFarthest}}).front());
  }
  const auto file = run.file("metrics.jsonl");
  return json_response(metrics_json(file ? metrics_since(*file, from) : MetricsPart{}));
}

}  // namespace

Site::Site(SiteOptions options)
    : options_(std::move(options)),
      list_(options_.keep_list),
      comparison_(options_.keep_comparison),
      jobs_(options_.attention) {}

Response Site::handle(const Request& request) {
  Response response;
  try {
    auto stopped = guard(request);
    response = stopped ? *std::move(stopped) : route(request, parse_target(request.target));
  } catch (const Error& error) {
    const bool syntax = error.scope() == "request";
    response = syntax ? refused(error) : error_response(500, error.what());
  } catch (const std::exception& error) {
    response = error_response(500, fmt::format("[serve] internal error: {}", error.what()));
  }
  add_security_headers(response);
  return response;
}

Response Site::route(const Request& request, const Target& target) {
  const std::string first = target.segments.empty() ? "" : target.segments.front();
  if (first == "api") return api(request, target);
  if (first == "live") return live_page(target);
  return explorer(request, target);
}

Response Site::api(const Request& request, const Target& target) {
  if (foreign(request)) return error_response(403, "[request] comes from a page of another origin");
  const std::size_t size = target.segments.size();
  const std::string what = size > 1 ? target.segments[1] : "";
  const bool whole = size == 2 && (what == "runs" || what == "compare");
  if (whole) {
    (void)read_numbers(target, {});  // refuses any query
    return what == "runs" ? runs() : compare();
  }
  if (size > 2 && what == "runs") return run_part(target);
  return not_found("there is no such part of the API", "docs/serve.md lists them");
}

Response Site::runs() {
  return json_response(list_.get(
      [this] { return to_json(runs::without_non_finite(reader_.describe(options_.folder))); }));
}

Response Site::compare() {
  return json_response(comparison_.get([this] {
    const auto folder = Folder::open(options_.folder);
    std::vector<report::Run> found;
    for (const RunPath& path : folder ? find_runs(*folder) : std::vector<RunPath>{}) {
      const auto run = folder->folder(path);
      if (!run) continue;
      const std::filesystem::path root = options_.folder;
      found.push_back(
          report::read_run(path.empty() ? root : root / fmt::format("{}", fmt::join(path, "/")),
                           [&] { return files_of(*run); }));
    }
    return to_json(runs::without_non_finite(report::to_value(report::compare(found))));
  }));
}

// The last segment says what is wanted, those before it are the run's path.
Response Site::run_part(const Target& target) {
  const Names names = Names(target.segments).subspan(2);
  const auto record = parse_record_name(names.back());
  const bool is_record = record && names.size() > 1 && names[names.size() - 2] == "attention";
  const Names above = names.first(names.size() - (is_record ? 2 : 1));
  const RunPath path(above.begin(), above.end());
  const auto root = Folder::open(options_.folder);
  const auto run = root ? root->folder(path) : std::nullopt;
  if (!run || !is_run(*run)) return not_found("there is no such run", "/api/runs lists them");
  if (is_record) {
    const auto file = run->file(names.last(2));
    if (!file) return not_found("there is no such record");
    const std::scoped_lock lock(reading_);
    return maps_response(path, *file, names.back());
  }
  const std::string& part = names.back();
  if (part == "config") return config_response(*run);
  if (part == "results") return results_response(*run);
  if (part == "metrics") return metrics_response(*run, target);
  if (part == "attention") return attention(path, *run, target);
  return not_found("a run has no such part", "config, metrics, results and attention are there");
}

Response Site::attention(const RunPath& path, const Folder& run, const Target& target) {
  if (target.query.empty()) return json_response(records_value(path, run));
  const auto numbers = read_numbers(target, {{"sample", 0, kMostSamples}, {"length", 2, kLongest}});
  const auto folder =
      std::filesystem::absolute(options_.folder) / fmt::format("{}", fmt::join(path, "/"));
  return record_response(jobs_, {folder.string(), numbers[0], numbers[1]}, path, run);
}

Response Site::explorer(const Request& request, const Target& target) const {
  std::vector<std::string> names = target.segments;
  if (target.folder) names.emplace_back("index.html");
  const auto web = options_.web.empty() ? std::nullopt : Folder::open(options_.web);
  auto file = web ? web->file(names) : std::nullopt;
  if (file) {
    Response response = file_response(*std::move(file), names.back(), request.if_none_match);
    // The page reads this and links to the live page, which other servers do not have.
    if (names.back() == "index.html") response.headers.emplace_back("Server-Timing", "posenc-live");
    return response;
  }
  if (target.segments.empty()) {
    return text_response(page_file("start.html"), content_type("start.html"));
  }
  return not_found("there is no such page");
}

}  // namespace posenc::serve
