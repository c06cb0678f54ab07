// What ranks say when one of them cannot join, when their data are bad, and when one is killed without a parent that sees it.
#include <chrono>
#include <memory>

#include "runs/environment.h"
#include "support/paths.h"
#include "train/several_processes.h"
#include "train/written_tokens.h"

namespace posenc::testing {
namespace {

namespace fs = std::filesystem;

class FailingRanks : public SharedRuns {
 protected:
  [[nodiscard]] std::string words(const std::string& config, const std::string& more = "") const {
    return "train " + config + " --threads 1 --progress quiet --out " + (folder_ / "run") + more;
  }
  // One line of the ranks, which says the text; the code of all of them.
  static void expect_one_line(const std::string& out, const std::string& text, int code) {
    EXPECT_NE(out.find(text), std::string::npos) << out;
    EXPECT_EQ(lines_of(out).size(), 3U) << out;  // it, and how both ended
    EXPECT_NE(out.find("rank 0 ended with " + std::to_string(code)), std::string::npos) << out;
    EXPECT_NE(out.find("rank 1 ended with " + std::to_string(code)), std::string::npos) << out;
  }
};

TEST_F(FailingRanks, ARankThatCannotReadItsConfigIsNamed) {
  const auto start = std::chrono::steady_clock::now();
  const std::string out =
      HandStartedRanks(free_port()).run({words(config_), words(folder_ / "nowhere.yaml")});
  expect_one_line(out, "posenc: rank 1 failed: ", 2);
  EXPECT_NE(out.find("nowhere.yaml"), std::string::npos) << out;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));  // of 60
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(FailingRanks, ARankWithAnUnknownOptionIsNamed) {
  const std::string out =
      HandStartedRanks(free_port()).run({words(config_), words(config_, " --nope")});
  expect_one_line(
      out, "posenc: rank 1 failed: posenc train: The following argument was not expected: --nope",
      2);
}

// Rank 0 has the table by which ranks find each other: it waits with its failure until the others know it.
TEST_F(FailingRanks, ARank0ThatCannotStartEndsTheOthers) {
  const auto start = std::chrono::steady_clock::now();
  const std::string nowhere = words(folder_ / "nowhere.yaml");
  const HandStartedRanks ranks(free_port());
  expect_one_line(ranks.run({nowhere, words(config_)}), "nowhere.yaml", 2);
  expect_one_line(ranks.run({words(config_, " --nope"), words(config_)}), "--nope", 2);
  expect_one_line(ranks.run({nowhere, nowhere}), "nowhere.yaml", 2);
  expect_one_line(ranks.run({nowhere, words(config_)}, {kBare, kBare}), "nowhere.yaml", 2);
  expect_one_line(ranks.run({words(config_, " --nope"), words(config_, " --nope")}), "--nope", 2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST_F(FailingRanks, ARankThatStartsLateLearnsOfTheFailure) {
  const auto start = std::chrono::steady_clock::now();
  const std::string out =
      HandStartedRanks(free_port())
          .run({words(config_), words(config_, " --nope"), words(config_)}, {"", "", "sleep 4;"});
  EXPECT_EQ(lines_of(out).size(), 4U) << out;
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_NE(out.find(std::string("rank ") + rank + " ended with 2"), std::string::npos) << out;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));  // of 60
}

TEST_F(FailingRanks, ARankWithoutAVariableIsNamed) {
  const std::string place =
      "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) + " ";
  LabResult second;
  std::thread other([&] { second = run_lab(words(config_), "RANK=1 " + place); });
  const LabResult first = run_lab(words(config_), "RANK=0 LOCAL_RANK=0 " + place);
  other.join();
  EXPECT_EQ(first.code, 2);
  EXPECT_EQ(lines_of(first.out).size(), 1U) << first.out;
  EXPECT_NE(first.out.find("posenc: rank 1 failed: [environment] LOCAL_RANK is missing"),
            std::string::npos)
      << first.out;
  EXPECT_EQ(second.out, "");
}

TEST_F(FailingRanks, BadTokenFilesAreOneLine) {
  const auto refused = [&](const std::string& folder, const char* text) {
    const std::string config = folder_.write("bad.yaml", config_of_tokens(folder));
    expect_one_line(HandStartedRanks(free_port()).run({words(config), words(config)}), text, 2);
    const LabResult result = run_lab(words(config, " --procs 2"));
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(lines_of(result.out).size(), 1U) << result.out;
    EXPECT_NE(result.out.find(text), std::string::npos) << result.out;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  };
  const std::string cut = folder_ / "cut";
  write_token_files(cut);
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(cut)) {
    if (entry.path().extension() == ".json") continue;
    if (shard.empty() || entry.file_size() > fs::file_size(shard)) shard = entry.path();
  }
  fs::resize_file(shard, fs::file_size(shard) / 2);
  refused(cut, "as its index says");

  const std::string other = folder_ / "other";
  write_token_files(other);
  std::string tokenizer = read_file(other + "/tokenizer.json");
  const std::size_t kind = tokenizer.find("\"BPE\"");
  ASSERT_NE(kind, std::string::npos);
  tokenizer.replace(kind, 5, "\"Unigram\"");
  folder_.write("other/tokenizer.json", tokenizer);
  refused(other, "must be of the type BPE");
}

// `scontrol suspend` and SIGSTOP: the clock goes on, and the ranks do not come back at the same time.
TEST_F(FailingRanks, ASuspendedJobGoesOn) {
  LabProcess process(words_of_long_run("run", "8"), folder_ / "said");  // silence: 4 s
  wait_for_checkpoint(process, folder_ / "run");
  const std::vector<pid_t> ranks = children_of(process.id());
  ASSERT_EQ(ranks.size(), 2U);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  const TensorBytes before = last_tensors(folder_ / "run");
  for (const pid_t rank : ranks) {
    kill(rank, SIGCONT);
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  wait_for_checkpoint(process, folder_ / "run", before);
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << read_file(folder_ / "said");
}

// Another build: the same program with another letter in its commit.
TEST_F(FailingRanks, RanksOfDifferentBuildsAreRefused) {
  const std::string commit = runs::build_commit();
  if (commit.empty()) GTEST_SKIP() << "built outside git";
  std::string bytes = read_file(kLabPath);
  std::string other = commit;
  other.front() = commit.front() == '0' ? '1' : '0';
  std::size_t found = 0;
  for (std::size_t at = 0; (at = bytes.find(commit, at)) != std::string::npos; ++found) {
    bytes.replace(at, other.size(), other);
  }
  ASSERT_GT(found, 0U);
  const std::string program = folder_.write("posenc-lab", bytes);
  fs::permissions(program, fs::perms::owner_all);
  const std::string out =
      HandStartedRanks(free_port()).run({words(config_), words(config_)}, {}, {"", program});
  expect_one_line(out, "posenc: [ranks] build must be the same on all ranks", 2);
  EXPECT_NE(out.find(commit), std::string::npos) << out;
  EXPECT_NE(out.find(other), std::string::npos) << out;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// No parent sees how they end: the others find out by themselves.
TEST_F(FailingRanks, AKilledRankOfNoParentEndsTheJobAndIsNamed) {
  for (const int killed : {1, 0}) {
    const std::string run = folder_ / ("run" + std::to_string(killed));
    const std::string port = std::to_string(free_port());
    std::vector<std::unique_ptr<LabProcess>> ranks;
    const std::vector<std::string> settings = words_of_long_run(fs::path(run).filename(), "20", {});
    for (const char* rank : {"0", "1"}) {
      const EnvironmentOfRank environment(rank, port);
      ranks.push_back(std::make_unique<LabProcess>(settings, folder_ / rank));
    }
    wait_for_checkpoint(*ranks[0], run);
    ranks[static_cast<std::size_t>(killed)]->send(SIGKILL);
    const int speaker = 1 - killed;
    EXPECT_EQ(ranks[static_cast<std::size_t>(speaker)]->wait(), 1);
    EXPECT_EQ(ranks[static_cast<std::size_t>(killed)]->wait(), -SIGKILL);
    const auto said = lines_of(read_file(folder_ / std::to_string(speaker)));
    ASSERT_EQ(said.size(), 1U) << read_file(folder_ / std::to_string(speaker));
    EXPECT_EQ(said[0].find("posenc: rank " + std::to_string(killed) + " failed: "), 0U) << said[0];
    EXPECT_EQ(read_file(folder_ / std::to_string(killed)), "");
  }
}

// Within ten seconds. A process that nobody waits for stays in the table as a zombie.
bool ends(pid_t process) {
  for (int i = 0; i < 100; ++i) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string number;
    std::string name;
    char state = 'Z';
    if (!(stat >> number >> name >> state) || state == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// Launchers see it and end the others; what has been saved stays.
TEST_F(FailingRanks, AKilledRankOfALauncherEndsTheJobAndTheRunGoesOn) {
  const std::map<std::string, std::vector<std::string>> launchers = {
      {"mpirun",
       {"--allow-run-as-root", "--oversubscribe", "-n", "2", "-x",
        "POSENC_RENDEZVOUS=" + (folder_ / "place"), kLabPath}},
      {"torchrun",
       {"-r", "1", "-t", "1", "--nproc_per_node=2", "--standalone", "--no_python", kLabPath}}};
  for (auto [launcher, words] : launchers) {
    if (!installed(launcher)) continue;
    const std::string run = folder_ / launcher;
    const std::vector<std::string> train = words_of_long_run(launcher, "20", {});
    words.insert(words.end(), train.begin(), train.end());
    LabProcess job(words, folder_ / "said", launcher);
    wait_for_checkpoint(job, run);
    const std::vector<pid_t> ranks = children_of(job.id());
    ASSERT_EQ(ranks.size(), 2U) << launcher;
    kill(ranks[1], SIGKILL);
    EXPECT_GT(job.wait(), 0) << launcher;
    for (const pid_t rank : ranks) EXPECT_TRUE(ends(rank)) << launcher;
    const std::string said = read_file(folder_ / "said");
    EXPECT_NE(said.find(launcher == "mpirun" ? "rank 1" : "local_rank: 1"), std::string::npos)
        << said;
    const TensorBytes before = last_tensors(run);
    LabProcess again(words_of_long_run(launcher, "20", {"--resume"}));
    wait_for_checkpoint(again, run, before);
    again.send(SIGTERM);
    (void)again.wait();
  }
}

TEST_F(FailingRanks, AnEvaluationByRanksIsRefused) {
  const std::string run = train("run", "--no-eval");
  const std::string results = run + "/results.json";
  const std::string before = fs::exists(results) ? read_file(results) : "";
  const std::string place = "WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ";
  const LabResult first = run_lab("eval " + run + " --progress quiet", "RANK=0 " + place);
  EXPECT_EQ(first.code, 2) << first.out;
  EXPECT_EQ(lines_of(first.out).size(), 1U) << first.out;
  EXPECT_NE(first.out.find("[eval] must be run by one process"), std::string::npos) << first.out;
  const LabResult second = run_lab("eval " + run + " --progress quiet", "RANK=1 " + place);
  EXPECT_EQ(second.code, 2);
  EXPECT_EQ(second.out, "");
  EXPECT_EQ(fs::exists(results) ? read_file(results) : "", before);
}

}  // namespace
}  // namespace posenc::testing
