// The multi-process service and the jobs that share a GPU, with stand-ins for NVIDIA's control program and for
// the trainer.
#include "sweep/gpu_service.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "sweep/sweep_case.h"

namespace posenc::sweep {
namespace {

using testing::file_content;
using testing::TemporaryFolder;
using testing::write_content;

// A daemon is a file in the pipe directory, a server another one.
constexpr const char* kControl = R"sh(#!/bin/sh
here=$(dirname "$0")
pipes=${CUDA_MPS_PIPE_DIRECTORY:-$here/default}
if [ "$1" = -d ]; then
  echo "start $pipes" >> "$here/calls"
  [ ! -f "$here/broken" ] || { echo "no GPU here" >&2; exit 1; }
  touch "$pipes/daemon"
  [ ! -f "$here/stubborn" ] || { "$0" serve > /dev/null 2>&1 & echo $! > "$pipes/nvidia-cuda-mps-control.pid"; }
  exit 0
fi
if [ "$1" = serve ]; then
  trap 'echo terminated >> "$here/calls"; exit 0' TERM
  echo serves >> "$here/calls"
  i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i + 1)); done; exit 0
fi
read request
[ -f "$pipes/daemon" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
echo "$request" >> "$here/calls"
case $request in
  start_server*) if [ -f "$here/mute" ]; then
    echo "cannot create a context" > "$CUDA_MPS_LOG_DIRECTORY/server.log"
  else touch "$pipes/server"; fi;;
  get_server_list) if [ -f "$pipes/server" ]; then echo 4711; fi;;
  quit) [ ! -f "$here/stubborn" ] || exit 1
    rm -f "$pipes/daemon" "$pipes/server";;
esac
)sh";

// A variable of this process, as it was again afterwards.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(Variable&&) = delete;
  Variable& operator=(Variable&&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class GpuServiceTest : public ::testing::Test {
 protected:
  GpuServiceTest() {
    ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    std::filesystem::create_directory(folder_ / "bin");
    std::filesystem::create_directory(folder_ / "tmp");
    write_content(folder_ / "bin/nvidia-cuda-mps-control", kControl);
    std::filesystem::permissions(folder_ / "bin/nvidia-cuda-mps-control",
                                 std::filesystem::perms::owner_all);
  }
  [[nodiscard]] std::string calls() const { return file_content(folder_ / "bin/calls"); }
  void wait_for_call(const std::string& call) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (calls().find(call) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_NE(calls().find(call), std::string::npos) << calls();
  }
  [[nodiscard]] std::size_t left_behind() const { return names_in(folder_ / "tmp").size(); }

  TemporaryFolder folder_;
  Variable path_{"PATH", (folder_ / "bin:") + std::getenv("PATH")};
  Variable temporary_{"TMPDIR", folder_ / "tmp"};
};

TEST_F(GpuServiceTest, StartsOneForTheJobsAndShutsItDown) {
  {
    const GpuService service;
    EXPECT_FALSE(service.failed()) << service.remark();
    EXPECT_NE(service.remark().find("service of this sweep"), std::string::npos);
    const auto environment = service.job_environment();
    ASSERT_EQ(environment.size(), 2U);
    EXPECT_EQ(environment[0].first, "CUDA_MPS_PIPE_DIRECTORY");
    EXPECT_NE(calls().find("start " + environment[0].second + "\n"), std::string::npos);
    EXPECT_EQ(calls().find("quit"), std::string::npos);
    EXPECT_LT(environment[0].second.size(), 90U) << "a socket's path is short";
    EXPECT_EQ(left_behind(), 1U);
  }
  EXPECT_TRUE(calls().ends_with("quit\n")) << calls();
  EXPECT_EQ(left_behind(), 0U);
}

TEST_F(GpuServiceTest, AnExceptionShutsItDownToo) {
  try {
    const GpuService service;
    throw Error(ErrorKind::kIo, {.scope = "sweep", .rule = "failed"});
  } catch (const Error&) {
    EXPECT_TRUE(calls().ends_with("quit\n")) << calls();
  }
}

TEST_F(GpuServiceTest, OneThatAnswersIsUsedAndLeftRunning) {
  std::filesystem::create_directory(folder_ / "bin/default");
  write_content(folder_ / "bin/default/daemon", "");
  {
    const GpuService service;
    EXPECT_TRUE(service.job_environment().empty());
    EXPECT_NE(service.remark().find("runs already"), std::string::npos) << service.remark();
  }
  EXPECT_EQ(calls(), "get_server_list\n");
  EXPECT_EQ(left_behind(), 0U);
}

TEST_F(GpuServiceTest, OneThatCannotStartIsAWarning) {
  write_content(folder_ / "bin/broken", "");
  const GpuService service;
  EXPECT_TRUE(service.failed());
  EXPECT_NE(service.remark().find("exit code 1: no GPU here"), std::string::npos)
      << service.remark();
  EXPECT_TRUE(service.job_environment().empty());
  EXPECT_EQ(left_behind(), 0U);
}

TEST_F(GpuServiceTest, OneWhoseServerDoesNotStartIsShutDownAgain) {
  write_content(folder_ / "bin/mute", "");
  const GpuService service(std::chrono::seconds(3));
  EXPECT_TRUE(service.failed());
  EXPECT_NE(service.remark().find("cannot create a context"), std::string::npos)
      << service.remark();
  EXPECT_TRUE(service.job_environment().empty()) << "jobs would fail with it";
  EXPECT_TRUE(calls().ends_with("quit\n")) << calls();
}

TEST_F(GpuServiceTest, OneThatDoesNotQuitGetsASignalAndKeepsItsFolder) {
  write_content(folder_ / "bin/stubborn", "");
  {
    const GpuService service;
    EXPECT_FALSE(service.failed()) << service.remark();
    wait_for_call("serves\n");
  }
  wait_for_call("terminated\n");
  EXPECT_NE(calls().find("quit\n"), std::string::npos) << calls();
  EXPECT_EQ(left_behind(), 1U) << "its pipes are the way to reach it";
}

TEST_F(GpuServiceTest, TheSignalIsForTheDaemonAlone) {
  write_content(folder_ / "bin/stubborn", "");
  std::optional<GpuService> service;
  service.emplace();
  wait_for_call("serves\n");
  const std::string file = service->job_environment().at(0).second + "/nvidia-cuda-mps-control.pid";
  const pid_t daemon = std::stoi(file_content(file));
  write_content(file, std::to_string(::getpid()));  // a number that another process has by now
  service.reset();
  EXPECT_EQ(left_behind(), 1U);
  ::kill(daemon, SIGTERM);
  wait_for_call("terminated\n");
}

TEST_F(GpuServiceTest, WithoutTheProgramThereIsNone) {
  const Variable path("PATH", folder_ / "tmp");
  const GpuService service;
  EXPECT_FALSE(service.failed());
  EXPECT_NE(service.remark().find("is not in PATH"), std::string::npos) << service.remark();
  EXPECT_TRUE(service.job_environment().empty());
}

using GpuSweep = testing::SweepCase;

TEST_F(GpuSweep, JobsGetTheirShareOfTheGpuAndItsEnvironment) {
  make_plan({"train.device=cuda"});
  for (int seed = 0; seed < 5; ++seed) {
    act(seed, "say \"share=$POSENC_GPU_SHARE at_once=$POSENC_JOBS_AT_ONCE pipe=$PIPE\"\n");
  }
  options_.environment = {{"PIPE", "/tmp/p"}};
  auto reports = look_up(plan_, plan_.jobs);
  EXPECT_TRUE(share_gpu(reports, options_));
  run();
  EXPECT_EQ(count("share=0.4750 at_once=2 pipe=/tmp/p"), 5U) << calls();
  reports = look_up(plan_, plan_.jobs);
  EXPECT_FALSE(share_gpu(reports, options_)) << "nothing is left to run";
}

TEST_F(GpuSweep, OneJobIsAloneHoweverManyMayRun) {
  make_plan({"train.device=cuda"});
  act(4, "say \"share=$POSENC_GPU_SHARE at_once=$POSENC_JOBS_AT_ONCE\"\n");
  run();
  std::filesystem::remove_all(plan_.jobs[4].folder);
  EXPECT_FALSE(share_gpu(look_up(plan_, plan_.jobs), options_));
  run();
  EXPECT_EQ(count("share=0.4750 at_once=2"), 1U);
  EXPECT_EQ(count("share=0.9500 at_once=1"), 1U) << calls();
}

TEST_F(GpuSweep, JobsOnTheCpuGetNoShare) {
  act(0, "say \"share=${POSENC_GPU_SHARE-none}\"\n");
  EXPECT_FALSE(share_gpu(look_up(plan_, plan_.jobs), options_));
  run();
  EXPECT_EQ(count("share=none"), 1U) << calls();
}

TEST_F(GpuSweep, AJobThatRunsOutOfMemoryFailsAlone) {
  make_plan({"train.device=cuda"});
  act(1, "status failed 'CUDA out of memory: 66 GiB are allowed'; exit 1\n");
  const auto reports = run();
  EXPECT_EQ(tally(reports).finished, 4U);
  EXPECT_EQ(reports[1].state, JobState::kFailed);
  EXPECT_EQ(reports[1].message, "CUDA out of memory: 66 GiB are allowed");
}

}  // namespace
}  // namespace posenc::sweep
