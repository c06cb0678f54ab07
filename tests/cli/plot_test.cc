// posenc plot as a user meets it: files, names, mistakes in one line, and CSV that is the figure.
#include "plots/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/run_cli.h"
#include "draw/files.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace {

using posenc::testing::file_content;
using posenc::testing::Result;
using posenc::testing::run;
using posenc::testing::TemporaryFolder;

TEST(PlotVerb, ListsEveryKindAndTheFieldsOfOne) {
  const Result list = run("plot --list");
  EXPECT_EQ(list.code, 0);
  for (const posenc::plots::KindInfo& kind : posenc::plots::plot_kinds()) {
    EXPECT_NE(list.out.find("  " + std::string(kind.name) + " "), std::string::npos) << kind.name;
    EXPECT_NE(list.out.find(std::string(kind.doc)), std::string::npos) << kind.name;
  }
  const Result tsne = run("plot tsne --list");
  EXPECT_EQ(tsne.code, 0);
  for (const char* says : {"--perplexity", "in [2, 512]", "Example:", "--encoding"}) {
    EXPECT_NE(tsne.out.find(says), std::string::npos) << says;
  }
  EXPECT_EQ(tsne.out.find("--theta"), std::string::npos) << "not read by t-SNE";
}

TEST(PlotVerb, WritesKindSvgByDefaultAndSaysSo) {
  const TemporaryFolder folder;
  const Result result = run("plot clocks", "cd " + folder.path() + " && ");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.out, "clocks.svg\n");
  EXPECT_EQ(file_content(folder / "clocks.svg").find("<svg"), 0U);
}

TEST(PlotVerb, EveryExampleRuns) {
  const TemporaryFolder folder;
  for (const posenc::plots::KindInfo& kind : posenc::plots::plot_kinds()) {
    const std::string arguments(kind.example.substr(std::string_view("posenc ").size()));
    const Result result = run(arguments, "cd " + folder.path() + " && ");
    EXPECT_EQ(result.code, 0) << arguments << ": " << result.out;
    EXPECT_TRUE(std::filesystem::exists(folder / (std::string(kind.name) + ".svg")));
  }
}

TEST(PlotVerb, CsvIsTheFigureOfTheRequest) {
  const TemporaryFolder folder;
  const std::string svg = folder / "a.svg";
  const std::string csv = folder / "a.csv";
  const Result result =
      run("plot bias-curves --encoding alibi --encoding \"relative(max_distance=4)\" --heads 3 "
          "--length 9 "
          "--causal false --table-std 0.5 --seed 3 -o " +
          svg + " --data " + csv);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.out, svg + "\n" + csv + "\n");
  posenc::plots::PlotRequest request = posenc::plots::default_request("bias-curves");
  request.encodings = {"alibi", "relative(max_distance=4)"};
  request.heads = 3;
  request.length = 9;
  request.causal = false;
  request.table_std = 0.5;
  request.seed = 3;
  EXPECT_EQ(file_content(csv), posenc::draw::to_csv(posenc::plots::plot(request)));
  EXPECT_NE(file_content(csv).find(",curve,head 0,2,"), std::string::npos);
}

TEST(PlotVerb, ListsAreSplitAtCommasAndMayBeNegative) {
  const TemporaryFolder folder;
  const std::string csv = folder / "a.csv";
  for (const char* gates :
       {"--gates -30,30,-30", "--gates=-30,30,-30", "--gates -30 --gates 30,-30"}) {
    const Result result = run("plot cope --text \"a b c\" " + std::string(gates) + " -o " + csv);
    ASSERT_EQ(result.code, 0) << gates << ": " << result.out;
    EXPECT_NE(file_content(csv).find("positions that the last query sees,curve,CoPE,0,1.0000"),
              std::string::npos)
        << file_content(csv);
  }
}

TEST(PlotVerb, ThemesDifferAndPngsAreScaled) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name) { return folder / name; };
  const std::string plot = "plot sinusoidal-curves --length 16 -o ";
  ASSERT_EQ(run(plot + file("light.svg") + " --theme light").code, 0);
  ASSERT_EQ(run(plot + file("dark.svg") + " --theme dark").code, 0);
  EXPECT_NE(file_content(file("light.svg")), file_content(file("dark.svg")));
  const Result one = run(plot + file("one.png") + " --scale 1");
  if (one.out.find("librsvg") != std::string::npos) GTEST_SKIP() << "built without librsvg";
  ASSERT_EQ(one.code, 0) << one.out;
  ASSERT_EQ(run(plot + file("two.png") + " --scale 2").code, 0);
  const auto width = [&](const std::string& name) {  // big-endian, at byte 16 of a PNG
    const std::string png = file_content(file(name));
    EXPECT_EQ(png.substr(1, 3), "PNG");
    int value = 0;
    for (std::size_t k = 16; k < 20; ++k)
      value = value * 256 + static_cast<unsigned char>(png.at(k));
    return value;
  };
  EXPECT_EQ(width("two.png"), 2 * width("one.png"));
}

// Maps are PNGs within the SVG, whose bytes depend on the machine's zlib.
std::string without_maps(std::string svg) {
  const std::string begin = "base64,";
  for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
    svg.erase(at + begin.size(), svg.find('"', at) - at - begin.size());
  }
  return svg;
}

// The pictures of README and docs/plots.md are those of their commands.
TEST(PlotVerb, PicturesOfTheDocsAreThoseOfTheirCommands) {
  const TemporaryFolder folder;
  const std::string made = folder / "made.svg";
  const std::array<std::pair<const char*, const char*>, 5> pictures = {{
      {"clocks.svg", "clocks"},
      {"inner-product.svg", "inner-product"},
      {"cope.svg", "cope"},
      {"cope_row.svg", "cope --columns 4 --panel-width 240"},
      {"extrapolation.svg", "extrapolation"},
  }};
  for (const auto& [picture, arguments] : pictures) {
    ASSERT_EQ(run("plot " + std::string(arguments) + " -o " + made).code, 0) << arguments;
    const std::string kept =
        std::string(posenc::testing::kTestData) + "/../docs/images/" + std::string(picture);
    EXPECT_TRUE(without_maps(file_content(kept)) == without_maps(file_content(made)))
        << "docs/images/" << picture << " is not what posenc plot " << arguments << " draws";
  }
}

TEST(PlotVerb, ATitleReplacesTheFiguresOwn) {
  const TemporaryFolder folder;
  const std::string svg = folder / "a.svg";
  ASSERT_EQ(run("plot sinusoidal-curves --length 16 --title \"Waves & <more>\" -o " + svg).code, 0);
  EXPECT_NE(file_content(svg).find(">Waves &amp; &lt;more&gt;</text>"), std::string::npos);
  ASSERT_EQ(run("plot sinusoidal-curves --length 16 --title '' -o " + svg).code, 0);
  EXPECT_EQ(file_content(svg).find("font-size=\"15\""), std::string::npos);
}

TEST(PlotVerb, APdfIsWrittenByItsEnding) {
  const TemporaryFolder folder;
  const std::string pdf = folder / "a.pdf";
  const Result result = run("plot clocks -o " + pdf);
  if (result.out.find("librsvg") != std::string::npos) GTEST_SKIP() << "built without librsvg";
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(file_content(pdf).substr(0, 5), "%PDF-");
}

TEST(PlotVerb, MistakesAreOneLineAndLeaveNoFile) {
  const TemporaryFolder folder;
  const std::array<std::pair<const char*, const char*>, 18> cases = {{
      {"", "KIND is required; posenc plot --list names them"},
      {"decy", "did you mean 'decay'?"},
      {"decy --list", "did you mean 'decay'?"},
      {"rope",
       "KIND is the kind of figure but got the encoding 'rope'; posenc plot KIND --encoding rope, "
       "where KIND is one of sinusoidal, "},
      {"alibi --list", "where KIND is one of "},
      {"decay --perplexity 5", "perplexity is not read by decay; it reads encodings"},
      {"decay --theta 1e4,x", "theta[1] must be a number but got 'x'"},
      {"decay --theta 1e4,", "theta[1] must be a number but got ''"},
      {"decay --length 12.5", "length must be an integer but got 12.5"},
      {"decay --length 99999999", "length must be in [2"},
      {"bias --causal maybe", "causal must be true or false but got 'maybe'"},
      {"similarity --content nothing", "content must be a known name but got 'nothing'"},
      {"clocks --encoding alibi", "encodings must rotate for clocks but got 'alibi'"},
      {"clocks -o a.svg -o picture.jpg", "must end in .svg, .png, .pdf or .csv"},
      {"clocks --data numbers.txt", "--data must be a name that ends in .csv"},
      {"clocks --theme blue", "blue not in {auto,light,dark}"},
      {"clocks --scale 99", "--scale"},
      {"clocks -o /nonexistent/folder/a.svg", "/nonexistent/folder"},
  }};
  for (const auto& [arguments, says] : cases) {
    const Result result = run("plot " + std::string(arguments), "cd " + folder.path() + " && ");
    EXPECT_EQ(result.code, 2) << arguments << ": " << result.out;
    EXPECT_NE(result.out.find(says), std::string::npos) << arguments << ": " << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << arguments;
  }
}

}  // namespace
