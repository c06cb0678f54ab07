// Rows of token files hold several documents, which are kept apart: dropout and blocks that are computed again are those of
// rows that hold one.
#include "train/several_processes.h"
#include "train/written_tokens.h"

namespace posenc::testing {
namespace {

class PackedRanks : public SharedRuns {
 protected:
  PackedRanks() {
    write_token_files(folder_ / "tokens");
    config_ = folder_.write("packed.yaml", config_of_tokens(folder_ / "tokens"));
  }
};

TEST_F(PackedRanks, DropTheSameAsOneProcess) {
  const std::string one = train("one", "--no-eval");
  for (const char* procs : {"2", "4"}) {
    const std::string several = train(procs, std::string("--no-eval --procs ") + procs);
    expect_near(metric_column(one, "loss"), metric_column(several, "loss"), 1e-5);
    expect_near(metric_column(one, "grad_norm"), metric_column(several, "grad_norm"), 1e-4);
  }
}

TEST_F(PackedRanks, DeterministicSumsHaveTheSameBits) {
  const std::string fixed = "--no-eval --set train.reduction=deterministic --set train.chunks=4";
  const TensorBytes alone = last_tensors(train("alone", fixed));
  ASSERT_FALSE(alone.empty());
  EXPECT_TRUE(last_tensors(train("two", fixed + " --procs 2")) == alone);
}

TEST_F(PackedRanks, BlocksComputedAgainGiveTheSameBits) {
  for (const char* procs : {"", " --procs 2"}) {
    const std::string words = std::string("--no-eval") + procs;
    const TensorBytes plain = last_tensors(train("plain", words));
    ASSERT_FALSE(plain.empty());
    EXPECT_TRUE(last_tensors(train("again", words + " --set train.checkpoint_blocks=true")) ==
                plain)
        << procs;
    remove_tree(folder_ / "plain");
    remove_tree(folder_ / "again");
  }
}

}  // namespace
}  // namespace posenc::testing
