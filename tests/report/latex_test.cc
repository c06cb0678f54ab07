// Tables for papers: what LaTeX reads.
#include "report/latex.h"

#include <gtest/gtest.h>

#include "report/page_case.h"

namespace posenc::report {
namespace {

using testing::count_of;
using testing::TemporaryFolder;
using testing::write_run;

TEST(LatexTable, IsWholeAndEscaped) {
  const TextTable table{.title = "copy_1: 95 % & more",
                        .header = {"encoding", "4x"},
                        .rows = {{R"(cope(max_position=4)^~\)", "-"}, {"chance", "25.0"}},
                        .notes = {"x: a\nnote"},
                        .shared_rows = 1};
  EXPECT_EQ(latex_table(table), R"(% \usepackage{booktabs}
% x: a note
\begin{table}
  \centering
  \caption{copy\_1: 95 \% \& more}
  \begin{tabular}{lr}
    \toprule
    encoding & 4x \\
    \midrule
    \texttt{cope(max\_position=4)\textasciicircum{}\textasciitilde{}\textbackslash{}} & -- \\
    \midrule
    chance & 25.0 \\
    \bottomrule
  \end{tabular}
\end{table}
)");
}

TEST(LatexTable, OfAComparisonHasThePagesColumnsAndNamesInFull) {
  const TemporaryFolder folder;
  const std::string spec = "rope(theta=500000, schedule=linear(factor=4)) + alibi";
  for (int seed = 0; seed < 3; ++seed) {
    write_run(folder / std::to_string(seed),
              {.encoding = spec,
               .seed = seed,
               .rows = {{"train", 1, 0.995, 0.99, 0.998}, {"longer", 2, 0.4524, 0.41, 0.4961}}});
  }
  const Comparison comparison = compare(find_runs({folder.path()}));
  const std::string latex = to_latex(comparison);
  EXPECT_EQ(count_of(latex, "\\begin{table}"), 2U) << "the overview and the axis longer";
  EXPECT_EQ(count_of(latex, "\\texttt{" + spec + "} & "), 2U) << latex;
  EXPECT_NE(latex.find("45.2 [41.0,49.6]"), std::string::npos);
  EXPECT_EQ(latex.find("seeds &"), std::string::npos);
  const std::string page = testing::page_of(folder.path());
  for (const TextTable& table : document_tables(comparison.tasks[0])) {
    EXPECT_EQ(table.shared_rows, 1U);
    for (std::string name : table.header) {
      if (const std::size_t x = name.find("2x"); x == 0) name.replace(1, 1, "×");
      EXPECT_NE(page.find(">" + name + "</th>"), std::string::npos) << name;
    }
  }
}

}  // namespace
}  // namespace posenc::report
