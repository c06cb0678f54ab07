#include "parallel/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "core/strings.h"
#include "posenc/core/error.h"

namespace posenc::parallel {
namespace {

constexpr int kFirstPort = 15000;  // below the ports that systems give away by themselves
constexpr int kPorts = 15000;

Error bad_environment(const std::string& name, const std::string& rule, const std::string& value,
                      const std::string& hint) {
  return {ErrorKind::kConflict,
          {.scope = "environment", .key = name, .rule = rule, .value = value, .hint = hint}};
}

int number_of(const Environment& environment, const std::string& name, const char* hint) {
  const auto text = environment(name);
  if (!text) throw bad_environment(name, "is missing", "", hint);
  const auto number = whole_number(*text);
  if (!number || *number > std::numeric_limits<int>::max()) {
    throw bad_environment(name, "must be a whole number from 0 on", *text, hint);
  }
  return static_cast<int>(*number);
}

int number_or(const Environment& environment, const std::string& name, int otherwise) {
  return environment(name) ? number_of(environment, name, "") : otherwise;
}

// The same on every rank of a job, and another one for another job.
int port_of(std::string_view job) { return kFirstPort + static_cast<int>(fnv1a(job) % kPorts); }

void require_rank_below_world(const Launch& launch, const char* rank, const char* world) {
  if (launch.world < 1) throw bad_environment(world, "must be at least 1", "0", "");
  if (launch.rank < launch.world) return;
  throw bad_environment(rank, fmt::format("must be below {} ({})", world, launch.world),
                        std::to_string(launch.rank), "start all ranks with one launcher");
}

void read_rendezvous(const Environment& environment, Launch& launch) {
  constexpr const char* kHint = "set MASTER_ADDR and MASTER_PORT for every rank";
  const auto address = environment("MASTER_ADDR");
  if (!address || address->empty()) {
    throw bad_environment("MASTER_ADDR", "is missing", "", kHint);
  }
  launch.address = *address;
  launch.port = number_of(environment, "MASTER_PORT", kHint);
  if (launch.port >= 1 && launch.port <= 65535) return;
  throw bad_environment("MASTER_PORT", "must be a port from 1 to 65535",
                        std::to_string(launch.port), kHint);
}

bool has_rendezvous(const Environment& environment) {
  return environment("MASTER_ADDR").has_value() || environment("MASTER_PORT").has_value();
}

// Of a job that its scheduler has started again, whatever starts the ranks in it.
int requeues(const Environment& environment) {
  return number_or(environment, "SLURM_RESTART_COUNT", 0);
}

Launch torchrun(const Environment& environment) {
  constexpr const char* kHint =
      "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT; unset them for a "
      "single process";
  Launch launch{.launcher = Launcher::kTorchrun};
  launch.rank = number_of(environment, "RANK", kHint);
  launch.world = number_of(environment, "WORLD_SIZE", kHint);
  launch.local_rank = number_of(environment, "LOCAL_RANK", kHint);
  launch.local_world = number_or(environment, "LOCAL_WORLD_SIZE", 1);
  require_rank_below_world(launch, "RANK", "WORLD_SIZE");
  read_rendezvous(environment, launch);
  launch.store_exists = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.restarts = number_or(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  launch.job = fmt::format("torchrun/{}", launch.restarts);  // as Board::serve() has it
  launch.restarts = std::max(launch.restarts, requeues(environment));
  return launch;
}

// "2(x3),1": two tasks on three hosts and one on another. The first number is right for ranks that are alike.
int tasks_per_host(const Environment& environment, int world) {
  const auto text = environment("SLURM_STEP_TASKS_PER_NODE");
  if (!text) return world;
  const auto number = whole_number(text->substr(0, text->find_first_of("(,")));
  return number ? static_cast<int>(std::clamp<std::int64_t>(*number, 1, world)) : world;
}

Launch slurm(const Environment& environment) {
  constexpr const char* kHint = "start the ranks with srun";
  Launch launch{.launcher = Launcher::kSlurm};
  launch.rank = number_of(environment, "SLURM_PROCID", kHint);
  launch.world = number_of(environment, "SLURM_STEP_NUM_TASKS", kHint);
  launch.local_rank = number_of(environment, "SLURM_LOCALID", kHint);
  launch.local_world = tasks_per_host(environment, launch.world);
  launch.restarts = requeues(environment);
  require_rank_below_world(launch, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  launch.job = fmt::format("slurm/{}.{}/{}", number_of(environment, "SLURM_JOB_ID", kHint),
                           environment("SLURM_STEP_ID").value_or("0"), launch.restarts);
  if (has_rendezvous(environment)) {
    read_rendezvous(environment, launch);
    return launch;
  }
  launch.port = port_of(launch.job);
  launch.address = "127.0.0.1";
  if (number_or(environment, "SLURM_STEP_NUM_NODES", 0) == 1) return launch;
  const auto step_hosts = environment("SLURM_STEP_NODELIST");
  const auto hosts = step_hosts ? step_hosts : environment("SLURM_JOB_NODELIST");
  if (!hosts) throw bad_environment("SLURM_JOB_NODELIST", "is missing", "", kHint);
  launch.address = first_host(*hosts);
  return launch;
}

Launch open_mpi(const Environment& environment) {
  constexpr const char* kHint = "start the ranks with mpirun";
  Launch launch{.launcher = Launcher::kOpenMpi};
  launch.rank = number_of(environment, "OMPI_COMM_WORLD_RANK", kHint);
  launch.world = number_of(environment, "OMPI_COMM_WORLD_SIZE", kHint);
  launch.local_rank = number_of(environment, "OMPI_COMM_WORLD_LOCAL_RANK", kHint);
  launch.local_world = number_or(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  launch.restarts = requeues(environment);
  require_rank_below_world(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  const auto jobid = environment("OMPI_MCA_ess_base_jobid");
  const auto name = jobid ? jobid : environment("PMIX_NAMESPACE");
  launch.job = "mpi/" + name.value_or("");
  if (has_rendezvous(environment)) {
    read_rendezvous(environment, launch);
  } else if (const auto file = environment("POSENC_RENDEZVOUS")) {
    launch.file = *file;
  } else if (launch.local_world == launch.world && name) {
    launch.address = "127.0.0.1";
    launch.port = port_of(launch.job);
  } else {
    throw bad_environment("MASTER_ADDR", "is missing, and the ranks are on several hosts", "",
                          "use mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500, or -x "
                          "POSENC_RENDEZVOUS=FILE on a shared file system");
  }
  return launch;
}

bool in_step_of_several(const Environment& environment) {
  const auto tasks = environment("SLURM_STEP_NUM_TASKS");
  return environment("SLURM_PROCID") && tasks && *tasks != "1";
}

}  // namespace

std::string_view name_of(Launcher launcher) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "torchrun", "Slurm", "Open MPI"};
  return kNames[static_cast<std::size_t>(launcher)];
}

std::optional<std::string> process_environment(const std::string& name) {
  const char* text = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

Launch read_launch(const Environment& environment) {
  if (environment("RANK") || environment("WORLD_SIZE")) return torchrun(environment);
  if (environment("OMPI_COMM_WORLD_RANK") || environment("OMPI_COMM_WORLD_SIZE")) {
    return open_mpi(environment);
  }
  if (in_step_of_several(environment)) return slurm(environment);
  return {.restarts = requeues(environment), .scheduled = environment("SLURM_JOB_ID").has_value()};
}

namespace {

// The first of these that is set, of torchrun, Open MPI and Slurm.
int claimed(const Environment& environment, const std::array<const char*, 3>& names,
            int otherwise) {
  for (const char* name : names) {
    if (name == names.back() && !in_step_of_several(environment)) continue;
    const auto text = environment(name);
    const auto number = text ? whole_number(*text) : std::nullopt;
    if (number) return static_cast<int>(std::clamp<std::int64_t>(*number, 0, 1 << 30));
  }
  return otherwise;
}

}  // namespace

int claimed_rank(const Environment& environment) {
  return claimed(environment, {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0);
}

int claimed_world(const Environment& environment) {
  return claimed(environment, {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
}

std::string first_host(std::string_view hosts) {
  const std::size_t end = hosts.find_first_of(",[");
  std::string host(hosts.substr(0, end));
  if (end == std::string_view::npos || hosts[end] == ',') return host;
  const std::string_view numbers = hosts.substr(end + 1);
  host += numbers.substr(0, numbers.find_first_of("-,]"));
  const std::size_t close = numbers.find(']');
  if (close == std::string_view::npos) return host;
  const std::string_view rest = numbers.substr(close + 1);
  return host + std::string(rest.substr(0, rest.find(',')));  // "node[1-2]-ib"
}

int threads_per_rank(const Launch& launch, int cores, int allowed_cores) {
  if (allowed_cores < cores) return std::max(1, allowed_cores);  // the launcher has shared them out
  return std::max(1, cores / std::max(1, launch.local_world));
}

void require_divisible(const Launch& launch, std::int64_t rows, const std::string& what) {
  if (rows % launch.world == 0) return;
  throw Error(ErrorKind::kConflict,
              {.scope = "train",
               .key = "batch",
               .rule = fmt::format("must be divisible by the number of processes ({}): {}",
                                   launch.world, what),
               .value = std::to_string(rows),
               .hint = "change train.batch, or start another number of processes"});
}

}  // namespace posenc::parallel
