#include "sweep/evidence_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/bind.h"

namespace posenc::sweep {
namespace {

std::string hash_on_any_device(config::LabConfig config) {
  config.train.device = config::TrainConfig{}.device;
  return config::config_hash(config);
}

config::LabConfig config_of(const Plan& plan, const Job& job) {
  return config::load_config(plan.file.base.string(), job.settings).config;
}

// What is wrong with a run, or nothing; a run that fits is counted for its job.
std::string problem_of(const KeptRun& run, const std::map<std::string, const Job*>& jobs,
                       std::map<std::string, std::string>& owners) {
  const auto config = config::parse_config(to_yaml(run.config), run.name).config;
  const auto job = jobs.find(hash_on_any_device(config));
  if (job == jobs.end()) return "is not a job of the sweep: its config is another one";
  const auto [owner, fresh] = owners.emplace(job->first, run.name);
  if (!fresh) return fmt::format("is the same job as {}", owner->second);
  if (!run.eval) return "";
  const auto eval = bind_config<config::EvalConfig>(*run.eval, run.name, "eval.");
  if (config::eval_hash(eval) == job->second->eval_hash) return "";
  return "was not evaluated with the settings of the sweep";
}

}  // namespace

RunMatch match_runs(const Plan& plan, const std::vector<KeptRun>& runs) {
  std::map<std::string, const Job*> jobs;
  for (const Job& job : plan.jobs) jobs[hash_on_any_device(config_of(plan, job))] = &job;
  RunMatch match;
  std::map<std::string, std::string> owners;
  for (const KeptRun& run : runs) {
    std::string problem;
    try {
      problem = problem_of(run, jobs, owners);
    } catch (const Error& e) {
      problem = fmt::format("has a config that cannot be read: {}", e.what());
    }
    if (!problem.empty()) match.problems.push_back(run.name + " " + problem);
  }
  match.jobs_with_runs = owners.size();
  return match;
}

std::vector<config::LabConfig> configs_of(const Plan& plan) {
  std::vector<config::LabConfig> configs;
  for (const Job& job : plan.jobs) configs.push_back(config_of(plan, job));
  return configs;
}

std::vector<std::string> encodings_of(const Plan& plan) {
  std::vector<std::string> encodings;
  for (const config::LabConfig& config : configs_of(plan)) {
    const std::string text = fmt::format("{}", fmt::join(config.model.encoding, " | "));
    if (std::find(encodings.begin(), encodings.end(), text) == encodings.end()) {
      encodings.push_back(text);
    }
  }
  return encodings;
}

}  // namespace posenc::sweep
