// Ranks as launchers name them in the environment: what is read, and what is refused.
#include "parallel/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "posenc/core/error.h"

namespace posenc::parallel {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Launch launch_of(const Variables& variables) { return read_launch(environment_of(variables)); }

std::string message_of(const Variables& variables) {
  try {
    (void)launch_of(variables);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

const Variables kTorchrun = {{"RANK", "3"},        {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1234"}};
const Variables kSlurm = {{"SLURM_PROCID", "2"},  {"SLURM_STEP_NUM_TASKS", "4"},
                          {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "7"},
                          {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "n[03-04]"}};
const Variables kMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "99"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Launch, OneProcessWithoutALauncher) {
  const Launch launch = launch_of({});
  EXPECT_FALSE(launch.launched());
  EXPECT_EQ(launch.world, 1);
}

TEST(Launch, ReadsTorchrun) {
  const Launch launch = launch_of(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::kTorchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.address, "a");
  EXPECT_EQ(launch.port, 1234);
  EXPECT_FALSE(launch.store_exists);
  EXPECT_TRUE(launch_of(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True")).store_exists);
  EXPECT_EQ(launch_of(with(kTorchrun, "TORCHELASTIC_RESTART_COUNT", "2")).restarts, 2);
}

TEST(Launch, ReadsAStepOfSlurm) {
  const Launch launch = launch_of(kSlurm);
  EXPECT_EQ(launch.launcher, Launcher::kSlurm);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world, 4);
  EXPECT_EQ(launch.address, "n03");
  // All ranks of a step choose the same port, and another step another one.
  EXPECT_EQ(launch.port, launch_of(with(kSlurm, "SLURM_PROCID", "0")).port);
  EXPECT_NE(launch.port, launch_of(with(kSlurm, "SLURM_STEP_ID", "1")).port);
  EXPECT_NE(launch.port, launch_of(with(kSlurm, "SLURM_JOB_ID", "8")).port);
  EXPECT_EQ(launch_of(with(kSlurm, "SLURM_STEP_NUM_NODES", "1")).address, "127.0.0.1");
  EXPECT_EQ(launch_of(with(kSlurm, "SLURM_STEP_NODELIST", "m9")).address, "m9");
  EXPECT_EQ(launch_of(with(kSlurm, "SLURM_RESTART_COUNT", "1")).restarts, 1);
  EXPECT_EQ(launch_of(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "2(x2)")).local_world, 2);
  auto given = with(with(kSlurm, "MASTER_ADDR", "h"), "MASTER_PORT", "5");
  EXPECT_EQ(launch_of(given).address, "h");
  EXPECT_EQ(launch_of(given).port, 5);
}

TEST(Launch, ABatchScriptOfSlurmIsOneProcess) {
  EXPECT_FALSE(launch_of(without(kSlurm, "SLURM_STEP_NUM_TASKS")).launched());
  EXPECT_FALSE(launch_of(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1")).launched());
  const Launch again = launch_of({{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_EQ(again.restarts, 1);
  EXPECT_TRUE(again.scheduled);
  EXPECT_FALSE(launch_of({}).scheduled);
}

TEST(Launch, ReadsOpenMpi) {
  const Launch launch = launch_of(kMpi);
  EXPECT_EQ(launch.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world, 2);
  EXPECT_EQ(launch.address, "127.0.0.1");
  EXPECT_NE(launch.port, launch_of(with(kMpi, "PMIX_NAMESPACE", "98")).port);
  EXPECT_EQ(launch_of(with(kMpi, "POSENC_RENDEZVOUS", "/f")).file, "/f");
}

// A job that Slurm has requeued goes on, whatever starts the ranks in it.
TEST(Launch, ReadsTheRestartsOfAJobAroundALauncher) {
  const Launch again = launch_of(with(kTorchrun, "SLURM_RESTART_COUNT", "3"));
  EXPECT_EQ(again.restarts, 3);
  EXPECT_EQ(again.job, launch_of(kTorchrun).job);  // where the launcher listens
  const auto both =
      with(with(kTorchrun, "SLURM_RESTART_COUNT", "1"), "TORCHELASTIC_RESTART_COUNT", "2");
  EXPECT_EQ(launch_of(both).restarts, 2);
  EXPECT_EQ(launch_of(kMpi).restarts, 0);
  EXPECT_EQ(launch_of(with(kMpi, "SLURM_RESTART_COUNT", "1")).restarts, 1);
}

TEST(Launch, TheInnermostLauncherCounts) {
  Variables both = kSlurm;
  both.insert(kMpi.begin(), kMpi.end());
  EXPECT_EQ(launch_of(both).launcher, Launcher::kOpenMpi);
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(launch_of(both).launcher, Launcher::kTorchrun);
}

TEST(Launch, IncompleteEnvironmentsNameTheVariable) {
  for (const auto& [name, value] : kTorchrun) {
    if (name == "LOCAL_WORLD_SIZE") continue;
    EXPECT_NE(message_of(without(kTorchrun, name)).find(name), std::string::npos) << name;
  }
  for (const char* name : {"SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"}) {
    EXPECT_NE(message_of(without(kSlurm, name)).find(name), std::string::npos) << name;
  }
  EXPECT_NE(message_of(with(kMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1")).find("several hosts"),
            std::string::npos);
  EXPECT_NE(message_of(without(kMpi, "OMPI_COMM_WORLD_RANK")).find("OMPI_COMM_WORLD_RANK"),
            std::string::npos);
}

TEST(Launch, ContradictionsAreRefused) {
  EXPECT_NE(message_of(with(kTorchrun, "RANK", "4")).find("below WORLD_SIZE (4)"),
            std::string::npos);
  EXPECT_NE(message_of(with(kTorchrun, "WORLD_SIZE", "0")).find("WORLD_SIZE"), std::string::npos);
  EXPECT_NE(message_of(with(kTorchrun, "MASTER_PORT", "x1")).find("x1"), std::string::npos);
  EXPECT_NE(message_of(with(kTorchrun, "MASTER_PORT", "70000")).find("70000"), std::string::npos);
  EXPECT_NE(message_of(with(kSlurm, "SLURM_PROCID", "9")).find("SLURM_PROCID"), std::string::npos);
}

TEST(Launch, ClaimsARankWhateverElseIsWrong) {
  EXPECT_EQ(claimed_rank(environment_of({{"RANK", "2"}})), 2);
  EXPECT_EQ(claimed_rank(environment_of({{"RANK", "two"}})), 0);
  EXPECT_EQ(claimed_rank(environment_of({{"OMPI_COMM_WORLD_RANK", "1"}})), 1);
  EXPECT_EQ(claimed_rank(environment_of({{"SLURM_PROCID", "3"}})), 0);  // no step of several tasks
  EXPECT_EQ(claimed_rank(environment_of(kSlurm)), 2);
  EXPECT_EQ(claimed_rank(environment_of({})), 0);
}

TEST(Launch, ClaimsANumberOfProcesses) {
  EXPECT_EQ(claimed_world(environment_of({{"WORLD_SIZE", "2"}})), 2);
  EXPECT_EQ(claimed_world(environment_of(kMpi)), 2);
  EXPECT_EQ(claimed_world(environment_of(kSlurm)), 4);
  EXPECT_EQ(claimed_world(environment_of(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1"))), 1);
  EXPECT_EQ(claimed_world(environment_of({})), 1);
}

TEST(Launch, TheFirstHostOfAList) {
  EXPECT_EQ(first_host("n1"), "n1");
  EXPECT_EQ(first_host("n1,n2"), "n1");
  EXPECT_EQ(first_host("n[07-09,12],other3"), "n07");
  EXPECT_EQ(first_host("n[3,5]-ib,m"), "n3-ib");
}

TEST(Launch, ThreadsAreShared) {
  Launch launch;
  launch.local_world = 4;
  EXPECT_EQ(threads_per_rank(launch, 16, 16), 4);
  EXPECT_EQ(threads_per_rank(launch, 2, 2), 1);
  EXPECT_EQ(threads_per_rank(launch, 16, 3), 3);  // bound by the launcher
}

TEST(Launch, TheBatchMustBeDivisible) {
  Launch launch;
  launch.world = 4;
  EXPECT_NO_THROW(require_divisible(launch, 8, "rows"));
  EXPECT_THROW(require_divisible(launch, 6, "rows"), Error);
}

}  // namespace
}  // namespace posenc::parallel
