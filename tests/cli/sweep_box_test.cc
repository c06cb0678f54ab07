// posenc sweep in a time box and on a GPU, with stand-ins for the trainer and for NVIDIA's control program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "cli/run_cli.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace posenc::testing {
namespace {

using nlohmann::json;

// Two jobs. The trainer says what it got, and waits to be stopped where a file `wait` is there.
constexpr const char* kTrainer = R"sh(#!/bin/sh
here=$(dirname "$0")
for word; do
  [ "$last" != --minutes ] || echo "minutes $word" >> "$here/calls"
  case $word in train.device=*) echo "$word" >> "$here/calls";; esac
  last=$word
done
while [ "$1" != --out ]; do shift; done
echo "job share=$POSENC_GPU_SHARE pipe=${CUDA_MPS_PIPE_DIRECTORY:+given}" >> "$here/calls"
if [ -f "$here/wait" ]; then
  trap 'echo saved >> "$here/calls"; exit 143' TERM
  echo ready >> "$here/calls"
  while :; do sleep 0.05; done
fi
mkdir -p "$2"
printf '{"state": "finished", "step": 1, "message": "", "config_hash": "x"}' > "$2/status.json"
)sh";

constexpr const char* kControl = R"sh(#!/bin/sh
here=$(dirname "$0")
if [ "$1" = -d ]; then touch "$here/daemon"; echo "mps start" >> "$here/calls"; exit 0; fi
read request
[ -f "$here/daemon" ] || exit 1
case $request in
  get_server_list) echo 4711;;
  quit) rm "$here/daemon"; echo "mps quit" >> "$here/calls";;
esac
)sh";

class BoxedSweepVerb : public ::testing::Test {
 protected:
  BoxedSweepVerb() {
    ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    write_content(folder_ / "base.yaml", "task: parity\n");
    write_content(folder_ / "sweep.yaml",
                  "base: base.yaml\nout: " + (folder_ / "out") + "\ngrid: {seed: [0, 1]}\n");
    write_program("trainer", kTrainer);
  }
  void write_program(const std::string& name, const std::string& script) const {
    write_content(folder_ / name, script);
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }
  [[nodiscard]] Result run_sweep(const std::string& more) const {
    return run(
        "sweep " + (folder_ / "sweep.yaml") + " --trainer " + (folder_ / "trainer") + " " + more,
        "TMPDIR=" + folder_.path() + " PATH=" + folder_.path() + ":$PATH ");
  }
  [[nodiscard]] std::string calls() const { return file_content(folder_ / "calls"); }
  [[nodiscard]] std::size_t count(const std::string& part) const {
    const std::string text = calls();
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++n;
    return n;
  }
  TemporaryFolder folder_;
};

TEST_F(BoxedSweepVerb, EndsInTimeAndSaysHowToGoOn) {
  write_content(folder_ / "wait", "");
  const Result result = run_sweep("--minutes 0.1");  // without a box it would never end
  EXPECT_EQ(result.code, 75) << result.out;
  EXPECT_NE(result.out.find("1 stopped by the time box, 1 not started; run the same command again "
                            "to go on"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(count("saved"), 1U) << calls();
  EXPECT_EQ(count("minutes 0.0"), 1U) << calls();
  const json j = json::parse(file_content(folder_ / "out/sweep.json"));
  EXPECT_EQ(j["counts"]["boxed"], 1);
  EXPECT_EQ(j["jobs"][0]["state"], "stopped");
  EXPECT_DOUBLE_EQ(j["minutes"], 0.1);
  std::filesystem::remove(folder_ / "wait");
  const Result again = run_sweep("--minutes 5");
  EXPECT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(again.out.find("time box"), std::string::npos) << again.out;
}

TEST_F(BoxedSweepVerb, AFailureIsToldBeforeTheTime) {
  write_program("trainer",
                "#!/bin/sh\ncase $* in *seed=0*) exit 1;; esac\n"
                "trap 'exit 143' TERM\nwhile :; do sleep 0.05; done\n");
  const Result result = run_sweep("--minutes 0.1 --jobs 2");
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_NE(result.out.find("1 stopped by the time box; run"), std::string::npos) << result.out;
}

TEST_F(BoxedSweepVerb, JobsOnOneGpuGetAServiceThatEndsWithThem) {
  write_program("nvidia-cuda-mps-control", kControl);
  const Result result = run_sweep("--device cuda --jobs 2 --threads 1");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("multi-process service of this sweep"), std::string::npos)
      << result.out;
  EXPECT_EQ(count("train.device=cuda"), 2U) << calls();
  EXPECT_EQ(count("job share=0.4750 pipe=given"), 2U) << calls();
  EXPECT_TRUE(calls().starts_with("mps start\n") && calls().ends_with("mps quit\n")) << calls();
}

// With the usual limit of ten seconds the service would use up the time of the jobs.
TEST_F(BoxedSweepVerb, AServiceThatHangsLeavesTimeForTheJobs) {
  write_program("nvidia-cuda-mps-control", "#!/bin/sh\n[ \"$1\" = -d ] || exit 1\nexec sleep 60\n");
  const Result result = run_sweep("--device cuda --jobs 2 --minutes 0.32");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("did not start, so the jobs take turns on the GPU: it hangs"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(count("job share=0.4750 pipe="), 2U) << calls();
}

TEST_F(BoxedSweepVerb, TheServiceIsLeftOutWhenItIsNotNeeded) {
  write_program("nvidia-cuda-mps-control", kControl);
  for (const char* more : {"--device cuda --jobs 2 --no-mps", "--device cuda --out x1",
                           "--jobs 2 --out x2", "--device cuda --jobs 2 --dry-run"}) {
    std::string text = more;
    if (const auto at = text.find(" x"); at != std::string::npos) {
      text.insert(at + 1, folder_.path() + "/");
    }
    EXPECT_EQ(run_sweep(text).code, 0) << more;
  }
  EXPECT_EQ(count("mps"), 0U) << calls();
  EXPECT_EQ(count("pipe=given"), 0U) << calls();
}

TEST_F(BoxedSweepVerb, ASignalEndsTheServiceToo) {
  write_program("nvidia-cuda-mps-control", kControl);
  write_content(folder_ / "wait", "");
  const pid_t child = fork();
  if (child == 0) {
    const std::string file = folder_ / "sweep.yaml";
    const std::string trainer = folder_ / "trainer";
    const std::string path = folder_.path() + ":" + std::getenv("PATH");
    ::setenv("PATH", path.c_str(), 1);
    execl(kCliPath, "posenc", "sweep", file.c_str(), "--trainer", trainer.c_str(), "--device",
          "cuda", "--jobs", "2", nullptr);
    _exit(99);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (count("ready") < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(count("ready"), 2U) << calls();
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_EQ(count("saved"), 2U);
  EXPECT_TRUE(calls().ends_with("mps quit\n")) << calls();
}

TEST_F(BoxedSweepVerb, MistakesAreOneLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--minutes 0", "--minutes must be above 0 and at most 1000000 but got 0"},
      {"--minutes nan", "--minutes must be above 0"},
      {"--device gpu", "--device"},
      {"--device cuda --set train.device=cpu",
       "--device cuda contradicts train.device=cpu of the job seed0"},
  };
  for (const auto& [arguments, part] : cases) {
    const Result result = run_sweep(arguments);
    EXPECT_EQ(result.code, 2) << arguments << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << arguments << "\n" << result.out;
  }
  EXPECT_EQ(calls(), "");
}

}  // namespace
}  // namespace posenc::testing
