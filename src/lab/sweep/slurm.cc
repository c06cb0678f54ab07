#include "sweep/slurm.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "core/bind.h"
#include "core/strings.h"
#include "runs/files.h"
#include "system/captured.h"
#include "system/sha256.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;

fs::path slurm_folder(const fs::path& out) { return out / "slurm"; }

// sbatch says what is wrong in its first lines and that it refuses in the last: all of it, in one.
std::string without_prefixes(const std::string& output) {
  std::string text;
  for (std::string_view line : split_lines(output)) {
    for (const std::string_view prefix : {"sbatch: ", "scancel: ", "error: ", "fatal: "}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    if (!line.empty()) text.append(text.empty() ? "" : ": ").append(line);
  }
  return text;
}

Error refused(const std::string& program, const Captured& answer) {
  std::string why = answer.timed_out ? "it did not answer" : without_prefixes(answer.output);
  if (why.empty()) why = ending_text(answer.ending);
  const bool of_partition = why.find("partition") != std::string::npos;
  return {ErrorKind::kConflict,
          {.scope = program,
           .key = "",
           .rule = "refused: " + why,
           .value = "",
           .hint = of_partition ? "sinfo lists the partitions; choose one with --partition"
                                : "sinfo and squeue show the state of the cluster"}};
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", std::chrono::time_point_cast<std::chrono::seconds>(
                                                  std::chrono::system_clock::now()));
}

// Number before the ';' that a cluster's name follows.
std::string job_number(const std::string& output) {
  for (const std::string_view line : split_lines(output)) {
    const std::string_view number = line.substr(0, line.find(';'));
    if (whole_number(number)) return std::string(number);
  }
  return "";
}

}  // namespace

void require_sbatch() {
  if (is_on_path("sbatch")) return;
  throw Error(ErrorKind::kConflict,
              {.scope = "sweep",
               .key = "--on slurm",
               .rule = "needs sbatch, which is not in PATH",
               .value = "",
               .hint = "run it on a machine of the cluster, or use --on local"});
}

fs::path write_script(const fs::path& out, const std::string& script) {
  const fs::path folder = slurm_folder(out);
  NewFolders folders(folder);
  folders.keep();
  fs::path path = folder / (sha256_hex(script).substr(0, 12) + ".sh");
  atomic_write(path, script);
  return path;
}

Submission submit(const fs::path& out, const fs::path& script, int tasks) {
  const Captured answer =
      run_captured({"sbatch", "--parsable", fmt::format("--array=0-{}", std::max(tasks, 1) - 1),
                    script.string()});
  Submission made{.job = job_number(answer.output),
                  .script = script.filename().string(),
                  .tasks = tasks,
                  .submitted = utc_now()};
  if (!answer.fine() || made.job.empty()) throw refused("sbatch", answer);
  runs::write_json(slurm_folder(out) / (made.job + ".json"), {Value::Data(all_fields(made))});
  return made;
}

std::vector<Submission> submissions(const fs::path& out) {
  std::vector<Submission> all;
  for (const std::string& name : names_in(slurm_folder(out))) {
    if (!name.ends_with(".json") || !whole_number(name.substr(0, name.size() - 5))) continue;
    const fs::path path = slurm_folder(out) / name;
    all.push_back(bind_config<Submission>(runs::read_json(path), path.string()));
  }
  std::sort(all.begin(), all.end(), [](const Submission& a, const Submission& b) {
    return whole_number(a.job) < whole_number(b.job);
  });
  return all;
}

// "CANCELLED by 0" has a word too many, and "None" is no reason.
std::map<std::string, SlurmTask> parse_sacct(const std::string& text) {
  std::map<std::string, SlurmTask> tasks;
  for (const std::string_view line : split_lines(text)) {
    const std::vector<std::string_view> fields = split(line, '|');
    if (fields.size() < 3) continue;
    tasks[std::string(fields[0])] = {std::string(fields[1].substr(0, fields[1].find(' '))),
                                     std::string(fields[2] == "None" ? "" : fields[2])};
  }
  return tasks;
}

std::map<std::string, SlurmTask> parse_scontrol(const std::string& text) {
  std::map<std::string, SlurmTask> tasks;
  for (const std::string_view line : split_lines(text)) {
    std::map<std::string, std::string> fields;
    for (const std::string_view word : split(line, ' ')) {
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos)
        fields.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    if (!fields.contains("JobState")) continue;
    const std::string task = fields["ArrayTaskId"].substr(0, fields["ArrayTaskId"].find('%'));
    const bool one = task.find_first_not_of("0123456789") == std::string::npos;
    const std::string name = task.empty() ? fields["JobId"]
                             : one        ? fields["ArrayJobId"] + "_" + task
                                          : fmt::format("{}_[{}]", fields["ArrayJobId"], task);
    tasks[name] = {fields["JobState"], fields["Reason"] == "None" ? "" : fields["Reason"]};
  }
  return tasks;
}

std::map<std::string, SlurmTask> ask_slurm(const std::vector<std::string>& jobs) {
  if (jobs.empty()) return {};
  if (is_on_path("sacct")) {
    const Captured answer =
        run_captured({"sacct", "-X", "-n", "-P", "-j", fmt::format("{}", fmt::join(jobs, ",")),
                      "-o", "JobID,State,Reason"});
    auto tasks = answer.fine() ? parse_sacct(answer.output) : std::map<std::string, SlurmTask>();
    if (!tasks.empty()) return tasks;
  }
  std::map<std::string, SlurmTask> tasks;
  if (!is_on_path("scontrol")) return tasks;
  for (const std::string& job : jobs) {
    const Captured answer = run_captured({"scontrol", "-o", "show", "job", job});
    if (answer.timed_out) return tasks;  // the controller is away: the others would wait as long
    if (answer.fine()) tasks.merge(parse_scontrol(answer.output));
  }
  return tasks;
}

bool is_queued(const SlurmTask& task) {
  constexpr std::array<std::string_view, 4> kQueued = {"PENDING", "REQUEUED", "REQUEUE_HOLD",
                                                       "CONFIGURING"};
  return std::find(kQueued.begin(), kQueued.end(), task.state) != kQueued.end();
}

bool is_active(const SlurmTask& task) {
  constexpr std::array<std::string_view, 5> kRunning = {"RUNNING", "COMPLETING", "SUSPENDED",
                                                        "STOPPED", "SIGNALING"};
  return is_queued(task) ||
         std::find(kRunning.begin(), kRunning.end(), task.state) != kRunning.end();
}

std::function<void(const Process&, int)> stop_of_steps(const std::vector<std::string>& trainer) {
  const char* job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr || trainer.empty() || fs::path(trainer.front()).filename() != "srun") {
    return {};
  }
  // All steps of this job, and not its script, which is this process.
  return [id = std::string(job)](const Process& srun, int signal) {
    const Captured answer = run_captured({"scancel", fmt::format("--signal={}", signal), id});
    if (!answer.fine()) srun.signal(signal);
  };
}

void cancel_jobs(const std::vector<std::string>& jobs, bool now) {
  const auto cancel = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "scancel");
    words.insert(words.end(), jobs.begin(), jobs.end());
    const Captured answer = run_captured(words);
    if (!answer.fine()) throw refused("scancel", answer);
  };
  if (now) return cancel({});
  cancel({"--state=PENDING"});
  cancel({"--state=RUNNING", "--batch", "--signal=TERM"});
}

}  // namespace posenc::sweep
