#include "sweep/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "config/load.h"
#include "posenc/core/fields.h"

namespace posenc::sweep {
namespace {

constexpr std::size_t kLongestName = 80;
constexpr const char* kDeviceKey = "train.device";

std::string key_of(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

// Letters and digits of a value, joined by single dashes or points: fit for a folder.
std::string slug(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    const bool kept = std::isalnum(letter) != 0 || c == '.' || c == '_';
    if (kept) {
      result += c;
    } else if (!result.empty() && result.back() != '_') {
      result += '_';
    }
  }
  while (!result.empty() && (result.back() == '_' || result.back() == '.')) result.pop_back();
  return result;
}

// "model.encoding=rope" is told by its value, "seed=2" and "model.layers=4" need their names.
std::string assignment_name(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  std::string value = slug(assignment.substr(equals + 1));
  if (key == "model.encoding" || key == "task" || key == "name") return value;
  return slug(key.substr(key.rfind('.') + 1)) + value;
}

std::string job_name(const std::vector<std::string>& point) {
  std::string name;
  for (const std::string& assignment : point) {
    name += (name.empty() ? "" : "-") + assignment_name(assignment);
  }
  return name.empty() ? "run" : name.substr(0, kLongestName);
}

std::string device_name(config::Device device) { return std::string(enum_name(device)); }

bool sets(const std::vector<std::string>& assignments, const std::string& key) {
  return std::any_of(assignments.begin(), assignments.end(),
                     [&](const std::string& a) { return key_of(a) == key; });
}

void check_settings(const SweepFile& file, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    for (const auto& point : file.points) {
      if (!sets(point, key_of(setting))) continue;
      throw Error(ErrorKind::kConflict, {.scope = "--set",
                                         .key = key_of(setting),
                                         .rule = "is what the sweep varies",
                                         .value = "",
                                         .hint = "change it in " + file.path});
    }
  }
}

Job make_job(const SweepFile& file, const std::vector<std::string>& point,
             const std::vector<std::string>& settings) {
  Job job{.name = job_name(point),
          .settings = settings,
          .hash = "",
          .eval_hash = "",
          .folder = {},
          .device = {}};
  job.settings.insert(job.settings.end(), point.begin(), point.end());
  try {
    const config::Loaded loaded = config::load_config(file.base.string(), job.settings);
    job.hash = loaded.hash;
    job.eval_hash = loaded.eval_hash;
    job.device = loaded.config.train.device;
  } catch (const Error& e) {
    if (point.empty()) throw;
    throw Error(e.kind(), {.scope = file.path,
                           .key = fmt::format("combination {}:", fmt::join(point, ", ")),
                           .rule = e.what(),
                           .value = "",
                           .hint = "correct it, or name it under exclude"});
  }
  if (!sets(job.settings, "name")) job.settings.push_back("name=" + job.name);
  job.folder = file.out / fmt::format("{}-{}", job.name, job.hash.substr(0, 8));
  return job;
}

Error two_evaluations(const SweepFile& file, const Job& job, const Job& earlier) {
  return {
      ErrorKind::kConflict,
      {.scope = file.path,
       .key = job.name,
       .rule =
           fmt::format("trains the same model as {} and evaluates it in another way", earlier.name),
       .value = "",
       .hint = "fields below eval belong into the base or --set, where they hold for every job"}};
}

}  // namespace

Plan make_plan(SweepFile file, const std::vector<std::string>& settings) {
  check_settings(file, settings);
  Plan plan;
  std::map<std::string, std::size_t> by_hash;
  for (const auto& point : file.points) {
    Job job = make_job(file, point, settings);
    const auto [known, fresh] = by_hash.emplace(job.hash, plan.jobs.size());
    if (fresh) {
      plan.jobs.push_back(std::move(job));
      continue;
    }
    const Job& earlier = plan.jobs[known->second];
    if (earlier.eval_hash != job.eval_hash) throw two_evaluations(file, job, earlier);
    ++plan.repeated;
  }
  plan.file = std::move(file);
  return plan;
}

std::vector<std::string> with_device(const SweepFile& file, std::vector<std::string> settings,
                                     config::Device device) {
  const bool varied = std::any_of(file.points.begin(), file.points.end(),
                                  [](const auto& point) { return sets(point, kDeviceKey); });
  if (!varied && !sets(settings, kDeviceKey)) {
    settings.push_back(fmt::format("{}={}", kDeviceKey, device_name(device)));
  }
  return settings;
}

void require_device(const Plan& plan, config::Device device) {
  for (const Job& job : plan.jobs) {
    if (job.device == device) continue;
    throw Error(ErrorKind::kConflict,
                {.scope = "sweep",
                 .key = "--device " + device_name(device),
                 .rule = fmt::format("contradicts {}={} of the job {}", kDeviceKey,
                                     device_name(job.device), job.name),
                 .value = "",
                 .hint = "leave out --device, or the --set or grid entry that sets it"});
  }
}

std::vector<Job> shard(std::vector<Job> jobs, int part, int parts) {
  if (parts < 1 || part < 1 || part > parts) {
    throw Error(ErrorKind::kOutOfRange, {.scope = "sweep",
                                         .key = "--shard",
                                         .rule = "must be i/n with i from 1 to n",
                                         .value = fmt::format("{}/{}", part, parts),
                                         .hint = "for example 1/4"});
  }
  std::vector<std::string> hashes;
  for (const Job& job : jobs) hashes.push_back(job.hash);
  std::sort(hashes.begin(), hashes.end());
  std::erase_if(jobs, [&](const Job& job) {
    const auto rank = std::lower_bound(hashes.begin(), hashes.end(), job.hash) - hashes.begin();
    return rank % parts != part - 1;
  });
  return jobs;
}

}  // namespace posenc::sweep
