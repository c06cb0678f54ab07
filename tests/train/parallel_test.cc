// Several processes train the run that one process trains: the same samples, masks and results; a rank that fails ends
// the others; a run goes on under another number of processes.
#include "support/paths.h"
#include "train/several_processes.h"

namespace posenc::testing {
namespace {

namespace fs = std::filesystem;

class Parallel : public SharedRuns {};

TEST_F(Parallel, TwoAndFourProcessesTrainTheSameRun) {
  const std::string one = train("one");
  for (const char* procs : {"2", "4"}) {
    const std::string several = train(procs, std::string("--procs ") + procs);
    expect_near(metric_column(one, "loss"), metric_column(several, "loss"), 2e-6);
    expect_near(metric_column(one, "grad_norm"), metric_column(several, "grad_norm"), 2e-5);
    EXPECT_EQ(metric_column(one, "tokens"), metric_column(several, "tokens"));
    EXPECT_EQ(metric_column(one, "step"), metric_column(several, "step"));
    EXPECT_EQ(metric_column(one, "accuracy"), metric_column(several, "accuracy"));
  }
}

// Parameters of every kind: tables, slopes, networks, projections of inputs, parameters that layers share.
TEST_F(Parallel, ParametersOfEncodingsTrainAsInOneProcess) {
  for (const char* spec : {"fire", "fox", "t5", "kerple", "path", "relative_query(extent=4)",
                           "cope(npos_max=8, share_layers=true)", "learned(max_positions=32)"}) {
    const std::string model = std::string("--no-eval --set 'model.encoding=") + spec + "'";
    const std::string one = train("one", model);
    expect_near(metric_column(one, "loss"),
                metric_column(train("two", model + " --procs 2"), "loss"), 5e-6);
    remove_tree(folder_ / "one");
    remove_tree(folder_ / "two");
  }
}

TEST_F(Parallel, AShardedOptimizerGoesOnUnderAnotherNumberOfProcesses) {
  const std::string fixed =
      " --set train.reduction=deterministic --set train.chunks=4 --set train.shard_optimizer=true";
  const TensorBytes whole = last_tensors(train("whole", "--procs 2" + fixed));
  stop_early("run", {"--procs", "2", "--set", "train.reduction=deterministic", "--set",
                     "train.chunks=4", "--set", "train.shard_optimizer=true"});
  (void)train("run", "--procs 4 --resume" + fixed);
  EXPECT_TRUE(last_tensors(folder_ / "run") == whole);
}

TEST_F(Parallel, AnEvaluationIsThatOfOneProcess) {
  const std::string run = train("run");
  const std::string scores = read_file(run + "/scores.bin");
  const auto results = runs::read_json(run + "/results.json");
  fs::remove(run + "/scores.bin");
  (void)train("run", "--procs 2 --resume");  // nothing is left to train
  EXPECT_EQ(read_file(run + "/scores.bin"), scores);
  const auto again = runs::read_json(run + "/results.json");
  EXPECT_EQ(to_json(*results.find("rows")), to_json(*again.find("rows")));
}

TEST_F(Parallel, DeterministicSumsHaveTheSameBitsForAnyNumberOfProcesses) {
  const std::string fixed = " --set train.reduction=deterministic --set train.chunks=4";
  const TensorBytes alone = last_tensors(train("alone", fixed));
  ASSERT_FALSE(alone.empty());
  for (const char* procs : {"1", "2", "4"}) {
    EXPECT_TRUE(last_tensors(train(procs, std::string("--procs ") + procs + fixed)) == alone)
        << procs;
  }
}

TEST_F(Parallel, AShardedOptimizerAndBlocksComputedAgainChangeNoBit) {
  const TensorBytes plain = last_tensors(train("plain", "--procs 2"));
  const std::string sharded = "--procs 2 --set train.shard_optimizer=true";
  EXPECT_TRUE(last_tensors(train("sharded", sharded)) == plain);
  EXPECT_TRUE(last_tensors(train("again", sharded + " --set train.checkpoint_blocks=true")) ==
              plain);
}

TEST_F(Parallel, BlocksComputedAgainGiveTheSameBits) {
  for (const std::string& model :
       {std::string("--set model.attention_dropout=0.2 --set model.norm=post"),
        std::string("--set model.score_scaling=learned_log"),
        std::string("--set model.encoding='cope(npos_max=8, share_layers=true)' "
                    "--set train.accumulate=1")}) {
    const TensorBytes plain = last_tensors(train("plain", model));
    EXPECT_TRUE(last_tensors(train("again", model + " --set train.checkpoint_blocks=true")) ==
                plain)
        << model;
    remove_tree(folder_ / "plain");
    remove_tree(folder_ / "again");
  }
}

TEST_F(Parallel, AStoppedRunGoesOnUnderAnotherNumberOfProcesses) {
  const std::string fixed = " --set train.reduction=deterministic --set train.chunks=4";
  const TensorBytes whole = last_tensors(train("whole", fixed));
  stop_early("run",
             {"--procs", "2", "--set", "train.reduction=deterministic", "--set", "train.chunks=4"});
  (void)train("run", "--procs 4 --resume" + fixed);
  EXPECT_TRUE(last_tensors(folder_ / "run") == whole);
}

TEST_F(Parallel, ARequeuedJobGoesOn) {
  const TensorBytes whole = last_tensors(train("whole", "--procs 2"));
  stop_early("run", {"--procs", "2"});
  (void)train("run", "--procs 2", "SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 ");
  EXPECT_TRUE(last_tensors(folder_ / "run") == whole);
}

TEST_F(Parallel, ASignalToOneRankStopsAllAtOneStep) {
  const std::string run = folder_ / "run";
  LabProcess process(words_of_long_run("run", "60"));
  wait_for_checkpoint(process, run);
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks.back(), SIGTERM);
  EXPECT_EQ(process.wait(), 0);
  EXPECT_NE(status_of(run).find("\"stopped\""), std::string::npos) << status_of(run);
}

TEST_F(Parallel, AKilledRankEndsTheJobAndIsNamed) {
  const std::string run = folder_ / "run";
  for (const int rank : {1, 0}) {
    std::vector<std::string> words = words_of_long_run("run", "20");
    if (rank == 0) words.emplace_back("--resume");
    const TensorBytes before = last_tensors(run);
    LabProcess process(words, folder_ / "said");
    wait_for_checkpoint(process, run, before);
    const std::vector<pid_t> ranks = children_of(process.id());
    ASSERT_EQ(ranks.size(), 2U);
    kill(ranks[static_cast<std::size_t>(rank)], SIGKILL);
    EXPECT_EQ(process.wait(), 1);
    const auto said = lines_of(read_file(folder_ / "said"));
    ASSERT_EQ(said.size(), 1U) << read_file(folder_ / "said");
    EXPECT_EQ(said[0],
              "posenc: rank " + std::to_string(rank) + " failed: ended by signal 9 (Killed)");
    for (const pid_t pid : ranks) EXPECT_NE(kill(pid, 0), 0) << "a rank lives on";
  }
  EXPECT_FALSE(last_tensors(run).empty());
}

TEST_F(Parallel, ARankThatHangsEndsTheJobWithinTheTimeout) {
  LabProcess process(words_of_long_run("run", "6"), folder_ / "said");
  wait_for_checkpoint(process, folder_ / "run");
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks.back(), SIGSTOP);
  EXPECT_EQ(process.wait(), 1);
  const auto said = lines_of(read_file(folder_ / "said"));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].find("posenc: rank 1 failed: no sign of life"), 0U) << said[0];
  EXPECT_NE(status_of(folder_ / "run").find("rank 1"), std::string::npos);
}

TEST_F(Parallel, ARankThatThrowsIsNamedWithItsError) {
  const std::string text =
      "task: {language_model: {path: text}}\n"
      "model: {encoding: rope, layers: 1, dim: 16, heads: 2}\n"
      "train: {length: 16, batch: 4, steps: 4, timeout: 30}\n";
  const std::string config = folder_.write("text.yaml", text);
  fs::create_directory(folder_ / "text");
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
    folder_.write(std::string("text/") + name, std::string(4000, name[0]));
  }
  const std::string words = "train " + config + " --no-eval --progress quiet --out run";
  const std::string here = "cd " + (folder_ / "") + ";";
  // The second rank starts where there is no such folder.
  const std::string out = HandStartedRanks(free_port()).run({words, words}, {here, "cd /;"});
  EXPECT_NE(out.find("posenc: rank 1 failed: "), std::string::npos) << out;
  EXPECT_EQ(lines_of(out).size(), 3U) << out;  // one line, and how both ended
  for (const char* rank : {"0", "1"}) {
    EXPECT_NE(out.find(std::string("rank ") + rank + " ended with 2"), std::string::npos) << out;
  }
}

// The second stage needs memory that the limit, set during the first, does not leave.
TEST_F(Parallel, ARankOutOfMemoryEndsTheJobAndIsNamed) {
  std::vector<std::string> words = words_of_long_run("run", "60");
  words.insert(words.end(), {"--set",
                             "train.stages=[{length: 12, batch: 16, steps: 200}, "
                             "{length: 1024, batch: 1024, steps: 1000}]",
                             "--set", "model.encoding=none"});
  LabProcess process(words, folder_ / "said");
  wait_for_checkpoint(process, folder_ / "run");
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  // A little more than it has: small allocations of libraries that do not expect to fail still succeed.
  rlim_t pages = 0;
  ASSERT_TRUE(std::ifstream("/proc/" + std::to_string(ranks.back()) + "/statm") >> pages);
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (64 << 20);
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  ASSERT_EQ(prlimit(ranks.back(), RLIMIT_AS, &limit, nullptr), 0);
  EXPECT_EQ(process.wait(), 1);
  const auto said = lines_of(read_file(folder_ / "said"));
  ASSERT_EQ(said.size(), 1U) << read_file(folder_ / "said");
  EXPECT_EQ(said[0].find("posenc: rank 1 failed: "), 0U) << said[0];
  EXPECT_NE(said[0].find("memory"), std::string::npos) << said[0];
}

TEST_F(Parallel, RanksWithDifferentConfigsOrOptionsAreRefused) {
  const std::string words = "train " + config_ + " --progress quiet --out " + (folder_ / "run");
  for (const auto& [more, what] : std::map<std::string, std::string>{
           {" --set train.lr=0.5", "config"}, {" --no-eval", "options"}}) {
    const std::string out = HandStartedRanks(free_port()).run({words, words + more});
    EXPECT_NE(out.find("posenc: [ranks] " + what + " must be the same on all ranks"),
              std::string::npos)
        << out;
    EXPECT_EQ(lines_of(out).size(), 3U) << out;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  }
}

// The same path on two hosts, with other texts in it.
TEST_F(Parallel, RanksWithDifferentDataAreRefused) {
  const std::string config =
      folder_.write("text.yaml",
                    "task: {language_model: {path: text}}\n"
                    "model: {encoding: rope, layers: 1, dim: 16, heads: 2}\n"
                    "train: {length: 16, batch: 4, steps: 4, timeout: 30}\n");
  for (const char* host : {"here", "there"}) {
    fs::create_directories(folder_ / (std::string(host) + "/text"));
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) {
      folder_.write(std::string(host) + "/text/" + name, std::string(4000, *host));
    }
  }
  const std::string words = "train " + config + " --no-eval --progress quiet --out run";
  const std::string out =
      HandStartedRanks(free_port())
          .run({words, words}, {"cd " + (folder_ / "here;"), "cd " + (folder_ / "there;")});
  EXPECT_NE(out.find("must be the same on all ranks"), std::string::npos) << out;
  EXPECT_NE(out.find("data"), std::string::npos) << out;
  EXPECT_EQ(lines_of(out).size(), 3U) << out;
  EXPECT_FALSE(fs::exists(folder_ / "here/run"));
}

TEST_F(Parallel, MistakesAreSaidByRank0Alone) {
  const std::string words = "train " + config_ + " --progress quiet --out " + (folder_ / "run");
  const auto refused = [&](const LabResult& result, const char* text) {
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_NE(result.out.find(text), std::string::npos) << result.out;
    EXPECT_EQ(lines_of(result.out).size(), 1U) << result.out;
  };
  refused(run_lab(words + " --procs 3"), "divisible by the number of processes (3)");
  refused(run_lab(words + " --procs 2 --set model.attention_dropout=0.1"), "attention_dropout");
  const std::string fixed = " --set train.reduction=deterministic --set train.chunks=4";
  refused(run_lab(words + " --procs 8 --set train.batch=32 --set train.stages=[]" + fixed),
          "[train] chunks must be a multiple of the number of processes (8) but got 4");
  refused(run_lab(words, "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "), "MASTER_ADDR is missing");
  EXPECT_EQ(run_lab(words, "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 ").out, "");
  refused(run_lab(words + " --procs 2",
                  "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=a "
                  "MASTER_PORT=1 "),
          "--procs cannot be used under another launcher");
  const std::string place = "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port());
  const std::string quick = words + " --set train.timeout=2";
  refused(run_lab(quick, "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 " + place + " "),
          "rank 1 did not join within 2 s");
  EXPECT_EQ(run_lab(quick, "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 " + place + " ").out, "");
}

// The bits of products follow the number of threads.
TEST_F(Parallel, DeterministicRanksHaveTheSameThreads) {
  const std::string words = "train " + config_ + " --progress quiet --out " + (folder_ / "run") +
                            " --set train.reduction=deterministic --set train.chunks=4 --threads ";
  const std::string out = HandStartedRanks(free_port()).run({words + "1", words + "2"});
  EXPECT_NE(out.find("posenc: [ranks] threads must be the same on all ranks"), std::string::npos)
      << out;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(Parallel, MpirunStartsRanks) {
  if (!installed("mpirun")) GTEST_SKIP() << "openmpi-bin is not installed";
  const std::string one = train("one", "--no-eval");
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe -n 2 ";
  const std::string two = train("two", "--no-eval", mpirun);
  expect_near(metric_column(one, "loss"), metric_column(two, "loss"), 2e-6);
  const std::string file = "-x POSENC_RENDEZVOUS=" + (folder_ / "place") + " ";
  const std::string again = train("again", "--no-eval", mpirun + file);
  EXPECT_TRUE(last_tensors(two) == last_tensors(again));
}

TEST_F(Parallel, TorchrunStartsRanks) {
  if (!installed("torchrun")) GTEST_SKIP() << "torchrun is not installed";
  const fs::path program = fs::path(kLabPath).parent_path() / "posenc-train";
  const std::string words = " " + config_ + " --threads 1 --no-eval --progress quiet --out ";
  // -r and -t: Debian's torchrun 1.13 does not start without them.
  const std::string torchrun = "torchrun -r 1 -t 1 --nproc_per_node=2 ";
  const auto run = [&](const std::string& options, const std::string& out) {
    const std::string command = torchrun + options + program.string() + words + (folder_ / out);
    return std::system((command + " > " + (folder_ / "said") + " 2>&1").c_str());
  };
  ASSERT_EQ(run("", "script"), 0) << read_file(folder_ / "said");
  ASSERT_EQ(run("--standalone --no_python ", "program"), 0) << read_file(folder_ / "said");
  EXPECT_TRUE(last_tensors(folder_ / "script") ==
              last_tensors(train("two", "--no-eval --procs 2")));
  EXPECT_TRUE(last_tensors(folder_ / "script") == last_tensors(folder_ / "program"));
}

}  // namespace
}  // namespace posenc::testing
