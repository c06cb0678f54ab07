#include "runs/progress.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/value.h"
#include "runs/progress_text.h"
#include "runs/run_case.h"

namespace posenc::runs {
namespace {

using Mode = Progress::Mode;

// A clock to turn by hand, and all that was written.
struct Screen {
  Progress make(Mode mode) {
    return Progress(
        mode,
        {[this](std::string_view text) { written += text; }, terminal, [this] { return columns; }},
        Progress::Limits{}, [this] { return seconds; });
  }
  std::string take() { return std::exchange(written, {}); }

  bool terminal = false;
  int columns = 80;
  double seconds = 100;
  std::string written;
};

ProgressState train(std::int64_t step, std::int64_t total = 1000) {
  ProgressState state;
  state.step = step;
  state.total = total;
  state.loss = 1.25;
  return state;
}

TEST(ProgressText, NumbersAsPeopleReadThem) {
  EXPECT_EQ(duration_text(41.6), "0:42");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(-3), "0:00");
  EXPECT_EQ(duration_text(INFINITY), "?");
  EXPECT_EQ(compact_count(999), "999");
  EXPECT_EQ(compact_count(12'345), "12.3k");
  EXPECT_EQ(compact_count(4'560'000), "4.56M");
  EXPECT_EQ(byte_text(512 * 1024), "512 KiB");
  EXPECT_EQ(byte_text(1.25 * 1024 * 1024 * 1024), "1.25 GiB");
}

TEST(ProgressText, AllFields) {
  ProgressState state = train(420);
  state.accuracy = 0.9312;
  state.tokens_per_second = 12'345;
  state.memory_bytes = 1.25 * 1024 * 1024 * 1024;
  state.seconds_left = 42;
  state.more = {{"norm", 0.123456}};
  EXPECT_EQ(plain_line(state),
            "train 420/1000  loss 1.25  acc 93.1 %  norm 0.1235  12.3k tok/s  1.25 GiB  0:42 left");
  EXPECT_EQ(json_line(state),
            "{\"phase\":\"train\",\"step\":420,\"total\":1000,\"loss\":1.25,\"accuracy\":0.9312,"
            "\"norm\":0.123456,\"tokens_per_second\":12345,\"memory_bytes\":1342177280,"
            "\"seconds_left\":42}");
  state.loss = NAN;
  EXPECT_EQ(*parse_json(json_line(state), "json").find("not_finite")->find("loss"),
            Value::of_string("nan"));
}

TEST(ProgressText, TheBarTakesWhatTheTextLeaves) {
  const ProgressState state = train(420);
  EXPECT_EQ(bar_line(state, 60), "train  42 % [##########................] 420/1000  loss 1.25");
  EXPECT_EQ(bar_line(state, 120).find(']') - bar_line(state, 120).find('['), 41U);
  EXPECT_EQ(bar_line(state, 35), "train  42 %  420/1000  loss 1.25") << "too narrow for a bar";
  for (int width = 0; width < 100; ++width) {
    EXPECT_LE(bar_line(state, width).size(), static_cast<std::size_t>(width));
  }
  EXPECT_EQ(bar_line(train(5, 0), 60), "train 5  loss 1.25") << "no total, no bar";
  EXPECT_NE(bar_line(train(999), 60).find(" 99 %"), std::string::npos) << "100 % only at the end";
  EXPECT_NE(bar_line(train(1200), 60).find("100 % [#########################]"), std::string::npos);
}

TEST(Progress, PlainLinesNowAndThen) {
  Screen screen;
  Progress progress = screen.make(Mode::kAuto);
  EXPECT_EQ(progress.mode(), Mode::kPlain);
  progress.update(train(0));
  EXPECT_EQ(screen.take(), "train 0/1000  loss 1.25\n");
  for (std::int64_t step = 1; step < 80; ++step) {
    screen.seconds += 0.125;
    progress.update(train(step));
  }
  EXPECT_EQ(screen.take(), "") << "not yet 10 seconds";
  screen.seconds += 0.125;
  progress.update(train(80));
  EXPECT_EQ(screen.take(), "train 80/1000  loss 1.25  1:55 left\n");
  screen.seconds += 1;
  progress.update(train(1000));
  progress.finish();
  progress.finish();
  EXPECT_EQ(screen.take(), "train 1000/1000  loss 1.25  in 0:11\n") << "once";
}

TEST(Progress, AResumedRunMeasuresItsOwnSteps) {
  Screen screen;
  Progress progress = screen.make(Mode::kPlain);
  progress.update(train(900));
  screen.take();
  screen.seconds += 20;
  progress.update(train(920));
  EXPECT_EQ(screen.take(), "train 920/1000  loss 1.25  1:20 left\n");
}

TEST(Progress, ABarIsRedrawnInPlaceAndCleanedUp) {
  Screen screen;
  screen.terminal = true;
  screen.columns = 61;
  {
    Progress progress = screen.make(Mode::kAuto);
    EXPECT_EQ(progress.mode(), Mode::kBar);
    progress.update(train(0));
    EXPECT_EQ(screen.take(), "\r" + bar_line(train(0), 60) + "\x1b[K");
    screen.seconds += 0.05;
    progress.update(train(1));
    EXPECT_EQ(screen.take(), "");
    screen.seconds += 0.075;
    screen.columns = 50;  // the window became smaller
    progress.update(train(500));
    const std::string drawn = screen.take();
    EXPECT_EQ(drawn, "\rtrain  50 %  500/1000  loss 1.25  0:00 left\x1b[K");
    progress.message("checkpoint of step 500 saved");
    const std::string above = screen.take();
    EXPECT_EQ(above, "\r\x1b[Kcheckpoint of step 500 saved\n" + drawn);
  }
  EXPECT_EQ(screen.take(), "\r\x1b[Ktrain 500/1000  loss 1.25  in 0:00\n");
}

TEST(Progress, PhasesFollowEachOther) {
  Screen screen;
  screen.terminal = true;
  Progress progress = screen.make(Mode::kBar);
  ProgressState eval = train(0, 4);
  eval.phase = "eval 512";
  progress.update(train(1000));
  screen.take();
  screen.seconds += 0.01;
  progress.update(eval);
  const std::string both = screen.take();
  EXPECT_EQ(both.find("\r\x1b[Ktrain 1000/1000  loss 1.25  in 0:00\n\reval 512   0 % ["), 0U)
      << both;
}

TEST(Progress, JsonForPrograms) {
  Screen screen;
  screen.terminal = true;
  Progress progress = screen.make(Mode::kJson);
  progress.update(train(1));
  progress.update(train(2));
  screen.seconds += 2;
  progress.update(train(3));
  progress.message("saved \"x\"\n");
  progress.update(train(1000));
  progress.finish();
  const std::string all = screen.take();
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\n', at);
    lines.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 4U) << all;
  EXPECT_EQ(*parse_json(lines[1], "json").find("step")->get_if<std::int64_t>(), 3);
  EXPECT_EQ(*parse_json(lines[2], "json").find("text"), Value::of_string("saved \"x\"\n"));
  EXPECT_EQ(*parse_json(lines[3], "json").find("step")->get_if<std::int64_t>(), 1000);
  EXPECT_EQ(all.find('\x1b'), std::string::npos);
}

TEST(Progress, MessagesCannotDriveTheTerminal) {
  Screen screen;
  { screen.make(Mode::kPlain).message("run a\x1b[2J\u202eb"); }
  EXPECT_EQ(screen.take(), "run a?[2J?b\n");
}

TEST(Progress, QuietSaysNothing) {
  Screen screen;
  screen.terminal = true;
  {
    Progress progress = screen.make(Mode::kQuiet);
    progress.update(train(1));
    progress.message("hello");
  }
  EXPECT_EQ(screen.take(), "");
}

TEST(Progress, ADescriptorThatIsNoTerminalGetsPlainLines) {
  posenc::testing::Child child([](const posenc::testing::Child::Say& say) {
    int ends[2] = {};
    if (::pipe(ends) != 0) return;
    {
      Progress progress(Mode::kBar, ProgressOutput::to_descriptor(ends[1]));
      progress.update(train(1000));
    }
    ::close(ends[1]);
    std::string got(200, '\0');
    const ssize_t count = ::read(ends[0], got.data(), got.size());
    say(got.substr(0, static_cast<std::size_t>(std::max<ssize_t>(count, 0))));
    // A reader that is gone does not end the run.
    std::signal(SIGPIPE, SIG_IGN);
    ::close(ends[0]);
    Progress(Mode::kPlain, ProgressOutput::to_descriptor(ends[1])).message("nobody listens");
    say("alive");
  });
  EXPECT_EQ(child.line(), "train 1000/1000  loss 1.25  in 0:00");
  EXPECT_EQ(child.line(), "");
  EXPECT_EQ(child.line(), "alive");
}

}  // namespace
}  // namespace posenc::runs
