// A site over a folder of runs, with a secret outside of it that no request may reach.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "report/run_case.h"
#include "runs/attention_case.h"
#include "serve/site.h"
#include "support/temporary_folder.h"

namespace posenc::testing {

inline constexpr const char* kSecret = "what lies outside";
inline constexpr const char* kRecord = "record.safetensors";  // of attention, outside of the runs

class SiteCase {
 public:
  SiteCase() {
    namespace fs = std::filesystem;
    fs::create_directories(root());
    fs::create_directories(folder_ / "web/deep");
    fs::create_directories(folder_ / "elsewhere");
    write_content(folder_ / "secret.txt", kSecret);
    write_run(root() + "/a", {.encoding = "rope", .rows = {{"train", 1, 0.9, 0.8, 0.95, ""}}});
    write_run(root() + "/group/b c", {.encoding = "alibi", .seed = 3, .rows = {}},
              runs::RunState::kStopped, "by hand");
    write_content(root() + "/a/metrics.jsonl", row(1) + row(2));
    write_content(folder_ / "web/index.html", "<p>explorer");
    write_content(folder_ / "web/deep/lib.wasm", std::string("\0asm", 4));
    write_run(folder_ / "elsewhere/run", {.rows = {}});
    write_content(folder_ / "elsewhere/run/metrics.jsonl", row(1));
    fs::create_directories(root() + "/a/attention");
    runs::write_attention(folder_ / kRecord, attention_record(32, 2, {"rope"}));
    fs::copy_file(folder_ / kRecord, root() + "/a/attention/train-T32-sample1.safetensors");
  }

  static std::string row(int step) {
    return fmt::format(
        "{{\"kind\":\"train\",\"step\":{},\"loss\":{},\"accuracy\":0.5,\"seconds\":{}}}\n", step,
        1.0 / step, 2.0 * step);
  }
  [[nodiscard]] std::string root() const { return folder_ / "runs"; }
  [[nodiscard]] std::string outside(const std::string& name) const { return folder_ / name; }
  // Lists are regenerated for every request by default.
  [[nodiscard]] serve::SiteOptions options() const {
    serve::SiteOptions options;
    options.folder = root();
    options.web = folder_ / "web";
    options.attention.words = {folder_ / "lab", "attention"};
    options.keep_list = options.keep_comparison = std::chrono::milliseconds(0);
    return options;
  }
  // The program that computes attention, as a shell script.
  void write_lab(const std::string& script) const {
    write_content(folder_ / "lab", "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_ / "lab", std::filesystem::perms::owner_all);
  }

 private:
  TemporaryFolder folder_;
};

inline serve::Request get(const std::string& target) {
  serve::Request request;
  request.target = target;
  request.host = "localhost:8080";
  return request;
}

// Head, content and all, as text: what a client could learn.
inline std::string everything(const serve::Response& response) {
  std::string text = response.body;
  if (response.file) {
    text += response.file->read(0, static_cast<std::size_t>(response.file->size));
  }
  for (const auto& [name, value] : response.headers) text += name + ": " + value + "\n";
  return text;
}

inline nlohmann::json json_of(const serve::Response& response) {
  return nlohmann::json::parse(response.body);
}

// Waits for something that other processes or threads bring about; generous, since machines are busy.
inline bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace posenc::testing
