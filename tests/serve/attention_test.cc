// Attention on request, with programs that work, fail, hang and talk without end.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "serve/site_case.h"

namespace posenc::testing {
namespace {

using nlohmann::json;
using serve::parse_record_name;
using serve::Response;
using serve::Site;
using std::chrono::milliseconds;

// Leaves a record under the name that is asked for, and counts the calls.
constexpr const char* kGoodLab = R"sh(
[ "$1" = attention ] && [ "$3" = --sample ] && [ "$5" = --length ] && [ "$7" = --no-links ] || exit 9
echo call >> "$2/calls"
mkdir -p "$2/attention"
cp "$(dirname "$0")/record.safetensors" "$2/attention/longer-T$6-sample$4.safetensors"
)sh";

class ServeAttention : public ::testing::Test {
 protected:
  void make_site(const std::string& script, milliseconds limit = milliseconds(60000)) {
    case_.write_lab(script);
    serve::SiteOptions options = case_.options();
    options.attention.limit = limit;
    options.attention.grace = milliseconds(100);
    site_ = std::make_unique<Site>(options);
  }
  Response ask(const std::string& rest) {
    return site_->handle(get("/api/runs/a/attention" + rest));
  }
  // Asks until the answer is not "still running".
  Response finally(const std::string& rest) {
    Response response;
    EXPECT_TRUE(eventually([&] {
      response = ask(rest);
      return response.status != 202;
    }));
    return response;
  }
  [[nodiscard]] std::string run() const { return case_.root() + "/a"; }
  // The process whose number a script wrote down: is it there?
  [[nodiscard]] bool alive() const {
    const std::string number = file_content(run() + "/pid");
    return !number.empty() && ::kill(std::stoi(number), 0) == 0;
  }
  SiteCase case_;
  std::unique_ptr<Site> site_;
};

TEST(ServeRecordNames, SayWhatIsInThem) {
  const auto name = parse_record_name("longer-T128-sample7.safetensors");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->axis, "longer");
  EXPECT_EQ(name->length, 128);
  EXPECT_EQ(name->sample, 7);
  EXPECT_FALSE(name->best);
  EXPECT_TRUE(parse_record_name("in_domain-T1-sample0-best.safetensors")->best);
  for (const char* bad :
       {"", ".safetensors", "a.safetensors", "-T1-sample1.safetensors", "a-T-sample1.safetensors",
        "a-T1-sample.safetensors", "a-T1-sample1.json", "a-T1-sample-1.safetensors",
        "a/b-T1-sample1.safetensors", "a-T1-sample1.safetensors.tmp-0011aabb",
        "a-T99999999999999999999-sample1.safetensors"}) {
    EXPECT_FALSE(parse_record_name(bad)) << bad;
  }
}

TEST_F(ServeAttention, RecordsAreListedAndServed) {
  make_site(kGoodLab);
  const json j = json_of(ask(""));
  ASSERT_EQ(j["records"].size(), 1U);
  EXPECT_EQ(j["records"][0]["length"], 32);
  EXPECT_EQ(j["records"][0]["bytes"], std::filesystem::file_size(case_.outside(kRecord)));
  const Response response = site_->handle(get(j["records"][0]["url"]));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.header("Content-Type"), "application/json");
  const json record = json_of(response);
  EXPECT_EQ(record["name"], "a");
  EXPECT_EQ(record["cells"], 32);
  EXPECT_EQ(record["heads"], 2);
  EXPECT_EQ(record["example"]["tokens"].size(), 32U);
  const json& weights = record["layers"][0]["maps"][0];
  EXPECT_EQ(weights["kind"], "weights");
  EXPECT_EQ(weights["highs"].size(), 2U);
  EXPECT_EQ(std::string(weights["png"]).rfind("data:image/png;base64,", 0), 0U);
  EXPECT_EQ(ask("/train-T32-sample2.safetensors").status, 404);
  EXPECT_EQ(ask("/other.txt").status, 404);
}

TEST_F(ServeAttention, ADamagedRecordIsNamedAsItIsListed) {
  make_site(kGoodLab);
  write_content(run() + "/attention/train-T32-sample1.safetensors", "no such thing");
  const Response response = ask("/train-T32-sample1.safetensors");
  EXPECT_EQ(response.status, 500);
  const std::string text = json_of(response)["error"];
  EXPECT_EQ(text.rfind("[train-T32-sample1.safetensors] ", 0), 0U) << text;
}

TEST_F(ServeAttention, IsComputedOnceAndThenKept) {
  make_site(kGoodLab);
  const Response first = ask("?sample=5&length=64");
  EXPECT_EQ(first.status, 202);
  EXPECT_EQ(first.header("Retry-After"), "1");
  EXPECT_EQ(json_of(first)["state"], "running");
  const json done = json_of(finally("?sample=5&length=64"));
  EXPECT_EQ(done["state"], "done");
  EXPECT_EQ(done["record"]["axis"], "longer");
  EXPECT_EQ(json_of(site_->handle(get(done["record"]["url"])))["heads"], 2);
  EXPECT_EQ(ask("?sample=5&length=64").status, 200);
  EXPECT_EQ(ask("?sample=1&length=32").status, 200);  // the one that was there
  EXPECT_EQ(file_content(run() + "/calls"), "call\n");
}

TEST_F(ServeAttention, ANewerCheckpointAsksForANewRecord) {
  make_site(kGoodLab);
  finally("?sample=5&length=64");
  std::filesystem::create_directory(run() + "/checkpoints");
  std::filesystem::last_write_time(
      run() + "/checkpoints",
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(finally("?sample=5&length=64").status, 200);
  EXPECT_EQ(file_content(run() + "/calls"), "call\ncall\n");
}

TEST_F(ServeAttention, NothingIsReadOrWrittenThroughALink) {
  make_site(kGoodLab);
  namespace fs = std::filesystem;
  const auto refused = [&](const std::string& name) {
    const Response response = ask("?sample=5&length=64");
    EXPECT_EQ(response.status, 409) << name << response.body;
    EXPECT_NE(response.body.find("'" + name + "' is a link"), std::string::npos) << response.body;
  };
  fs::rename(run() + "/attention", case_.outside("records"));
  fs::create_directory_symlink(case_.outside("records"), run() + "/attention");
  EXPECT_TRUE(json_of(ask(""))["records"].empty());
  refused("attention");
  EXPECT_FALSE(fs::exists(case_.outside("records/longer-T64-sample5.safetensors")));
  fs::remove(run() + "/attention");
  fs::create_directories(run() + "/checkpoints/step-00000001");
  fs::create_symlink(case_.outside("secret.txt"), run() + "/checkpoints/step-00000001/model");
  refused("checkpoints/step-00000001/model");
  EXPECT_EQ(file_content(run() + "/calls"), "");
  fs::remove(run() + "/checkpoints/step-00000001/model");
  EXPECT_EQ(finally("?sample=5&length=64").status, 200);
}

// The program works in the folder that the request was checked for, even when its path changes.
TEST_F(ServeAttention, ALinkPutInPlaceOfARunInTheMeantimeChangesNothing) {
  make_site("touch \"$2/started\"; while [ ! -f \"$2/go\" ]; do sleep 0.02; done\n" +
            std::string(kGoodLab));
  namespace fs = std::filesystem;
  EXPECT_EQ(ask("?sample=5&length=64").status, 202);
  ASSERT_TRUE(eventually([&] { return fs::exists(run() + "/started"); }));
  const std::string moved = case_.root() + "/moved";
  fs::rename(run(), moved);
  fs::create_directory_symlink(case_.outside("elsewhere/run"), run());
  write_content(moved + "/go", "");
  EXPECT_TRUE(
      eventually([&] { return fs::exists(moved + "/attention/longer-T64-sample5.safetensors"); }));
  EXPECT_FALSE(fs::exists(case_.outside("elsewhere/run/attention")));
}

TEST_F(ServeAttention, AMessageNamesTheRunByItsPath) {
  make_site("echo \"posenc: [$2/checkpoints] has no checkpoint\" >&2; exit 2");
  const std::string text = json_of(finally("?sample=1&length=8"))["error"];
  EXPECT_NE(text.find("[" + run() + "/checkpoints] has no checkpoint"), std::string::npos) << text;
}

TEST_F(ServeAttention, NumbersAreChecked) {
  make_site(kGoodLab);
  for (const char* bad :
       {"?sample=1", "?length=8", "?sample=-1&length=8", "?sample=1&length=1",
        "?sample=1&length=16385", "?sample=1e3&length=8", "?sample=1&length=8&x=1",
        "?sample=$(id)&length=8", "?sample=;&length=8"}) {
    EXPECT_EQ(ask(bad).status, 400) << bad;
  }
  EXPECT_EQ(file_content(run() + "/calls"), "");
  EXPECT_EQ(site_->handle(get("/api/runs/none/attention?sample=1&length=8")).status, 404);
}

TEST_F(ServeAttention, AFailureIsToldOnceWithTheProgramsLastWords) {
  make_site("echo starting; echo '[lab] no checkpoint here; train first' >&2; exit 3");
  const Response failed = finally("?sample=1&length=8");
  EXPECT_EQ(failed.status, 500);
  const std::string text = json_of(failed)["error"];
  EXPECT_NE(text.find("failed (exit code 3): [lab] no checkpoint here; train first"),
            std::string::npos)
      << text;
  case_.write_lab(kGoodLab);
  EXPECT_EQ(finally("?sample=1&length=8").status, 200);  // another try
}

TEST_F(ServeAttention, AProgramThatLeavesNothingOrIsNotThere) {
  make_site("exit 0");
  EXPECT_NE(finally("?sample=1&length=8").body.find("wrote no record"), std::string::npos);
  std::filesystem::remove(case_.outside("lab"));
  const Response missing = finally("?sample=1&length=8");
  EXPECT_EQ(missing.status, 500);
  EXPECT_NE(missing.body.find("could not be started"), std::string::npos) << missing.body;
}

TEST_F(ServeAttention, OneAtATime) {
  make_site("echo $$ > \"$2/pid\"; while [ ! -f \"$2/go\" ]; do sleep 0.02; done\n" +
            std::string(kGoodLab));
  EXPECT_EQ(ask("?sample=5&length=64").status, 202);
  const Response other = ask("?sample=6&length=64");
  EXPECT_EQ(other.status, 503);
  EXPECT_EQ(other.header("Retry-After"), "2");
  EXPECT_EQ(ask("?sample=5&length=64").status, 202);
  EXPECT_EQ(ask("?sample=1&length=32").status, 200);  // what is there needs no turn
  write_content(run() + "/go", "");
  EXPECT_EQ(finally("?sample=5&length=64").status, 200);
  EXPECT_EQ(finally("?sample=6&length=64").status, 200);
}

TEST_F(ServeAttention, AProgramThatHangsIsEnded) {
  make_site("trap '' TERM; echo $$ > \"$2/pid\"; while :; do sleep 0.05; done", milliseconds(300));
  const Response response = finally("?sample=1&length=8");
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("took more than 0.3 s"), std::string::npos) << response.body;
  EXPECT_TRUE(eventually([&] { return !alive(); }));
}

TEST_F(ServeAttention, AProgramThatTalksWithoutEndIsEnded) {
  make_site("exec yes", milliseconds(300));
  EXPECT_NE(finally("?sample=1&length=8").body.find("took more than"), std::string::npos);
}

TEST_F(ServeAttention, TheServersEndEndsTheProgram) {
  make_site("trap '' TERM; echo $$ > \"$2/pid\"; while :; do sleep 0.05; done");
  EXPECT_EQ(ask("?sample=1&length=8").status, 202);
  ASSERT_TRUE(eventually([&] { return alive(); }));
  site_.reset();
  EXPECT_FALSE(alive());
}

}  // namespace
}  // namespace posenc::testing
