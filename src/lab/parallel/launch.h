// The rank of this process and the number of processes, from the launcher's environment variables.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; `posenc train --procs N` sets the same
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, the first host of SLURM_STEP_NODELIST and a port from
//              the job's number. Only in a step of several tasks: a batch script alone is one process.
//   Open MPI   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK. On one host the port comes from the job's name; across hosts
//              MASTER_ADDR and MASTER_PORT are needed, or POSENC_RENDEZVOUS, a file that all hosts see.
//
// The first of the three that is set is used: torchrun and mpirun may run inside Slurm.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace posenc::parallel {

enum class Launcher { kNone, kTorchrun, kSlurm, kOpenMpi };
std::string_view name_of(Launcher launcher);

struct Launch {
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int world = 1;
  int local_rank = 0;   // among the processes of this host: the number of its GPU
  int local_world = 1;  // how many they are
  std::string address;  // where rank 0 listens
  int port = 0;
  std::string file;           // where rank 0 writes address and port instead
  bool store_exists = false;  // a launcher's own process listens there, not rank 0
  int restarts = 0;           // how often the job was started before
  // A job of Slurm, which takes every exit code but 0 for a failure.
  bool scheduled = false;

  [[nodiscard]] bool launched() const { return launcher != Launcher::kNone; }
  [[nodiscard]] bool leads() const { return rank == 0; }
  // A name that no other job on the same machines has, for rendezvous.
  std::string job;
};

// The value of a variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> process_environment(const std::string& name);

// Throws an Error that names the variable where the environment is incomplete or contradicts itself.
Launch read_launch(const Environment& environment = process_environment);

// The rank that the environment claims, whatever else is wrong with it; 0 without a launcher. Ranks above 0 leave it to
// rank 0 to say what is wrong.
int claimed_rank(const Environment& environment = process_environment);

// The number of processes that it claims; 1 without a launcher.
int claimed_world(const Environment& environment = process_environment);

// "node07" of "node[07-09,12],other3".
std::string first_host(std::string_view hosts);

// Threads of a rank where none are asked for: its share of the cores that it may run on.
int threads_per_rank(const Launch& launch, int cores, int allowed_cores);

// Throws an Error where the world cannot share the batch: `rows` are computed together.
void require_divisible(const Launch& launch, std::int64_t rows, const std::string& what);

}  // namespace posenc::parallel
