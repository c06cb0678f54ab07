#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "sweep/slurm.h"
#include "system/process.h"
#include "system/sha256.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> time_parts(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ':');) parts.push_back(part);
  return parts;
}

std::optional<int> time_number(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// As sbatch reads its lines: within double quotes a backslash keeps a quote.
std::string quoted_option(const std::string& option) {
  if (option.find_first_of(" \t\"'\\#") == std::string::npos) return option;
  std::string text = "\"";
  for (const char c : option)
    text += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return text + "\"";
}

// In names of files % stands before a letter that Slurm replaces.
std::string file_pattern(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

std::vector<std::string> options_of(const SlurmRequest& request, const std::string& name,
                                    const fs::path& out, const fs::path& here) {
  std::vector<std::string> options = {fmt::format("--job-name=posenc-{}", name),
                                      fmt::format("--array=0-{}", std::max(request.tasks, 1) - 1),
                                      "--ntasks=1"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty() && value != "0") options.push_back(fmt::format("--{}={}", option, value));
  };
  add("partition", request.partition);
  add("time", request.time);
  add("gpus", std::to_string(request.gpus));
  add("cpus-per-task", std::to_string(request.cpus));
  add("mem", request.memory);
  options.emplace_back("--requeue");
  options.emplace_back("--open-mode=append");
  options.push_back(fmt::format("--signal=B:TERM@{}", fitting_grace(request)));
  options.push_back(fmt::format("--output={}", file_pattern(out / "slurm") + "/%A_%a.log"));
  options.push_back(fmt::format("--chdir={}", here.string()));
  options.insert(options.end(), request.more.begin(), request.more.end());
  return options;
}

}  // namespace

std::optional<double> slurm_minutes(const std::string& time) {
  const std::size_t dash = time.find('-');
  const bool with_days = dash != std::string::npos;
  const std::vector<std::string> parts = time_parts(with_days ? time.substr(dash + 1) : time);
  std::vector<double> numbers;
  for (const std::string& part : parts) {
    const auto number = time_number(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  const std::size_t n = numbers.size();
  if (n == 0 || n > 3) return std::nullopt;
  numbers.resize(3);
  if (with_days) {  // days-hours[:minutes[:seconds]]
    const auto days = time_number(time.substr(0, dash));
    if (!days) return std::nullopt;
    return *days * 1440.0 + numbers[0] * 60 + numbers[1] + numbers[2] / 60;
  }
  if (n == 3) return numbers[0] * 60 + numbers[1] + numbers[2] / 60;
  return numbers[0] + numbers[1] / 60;  // minutes[:seconds]
}

int fitting_grace(const SlurmRequest& request) {
  const auto minutes = slurm_minutes(request.time);
  if (!minutes) return request.grace;
  return std::min(request.grace, std::max(10, static_cast<int>(*minutes * 60 / 4)));
}

std::string slurm_script(const SlurmRequest& request, const std::string& name, const fs::path& out,
                         const fs::path& here, const std::vector<std::string>& worker) {
  std::string script =
      "#!/bin/bash\n"
      "# Written by posenc sweep --on slurm. Each task of the array trains the runs that no "
      "other task holds.\n";
  for (const std::string& option : options_of(request, name, out, here)) {
    script += "#SBATCH " + quoted_option(option) + "\n";
  }
  // exec: the signal before the time limit goes to the script itself.
  return script + "exec " + command_text(worker) + "\n";
}

std::string plan_hash(const Plan& plan) {
  std::vector<std::string> jobs;
  for (const Job& job : plan.jobs) jobs.push_back(job.hash + " " + job.eval_hash + "\n");
  std::sort(jobs.begin(), jobs.end());
  Sha256 hash;
  for (const std::string& job : jobs) hash.update(job);
  return hash.hex().substr(0, 16);
}

}  // namespace posenc::sweep
