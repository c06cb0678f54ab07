# cmake -DSOURCE=<tree> -DOUT=<file.cc> -P PosencCommit.cmake: writes the commit that is being built
# as C++, and touches the file only when that changes.
execute_process(
  COMMAND git -C ${SOURCE} describe --always --abbrev=40 --dirty --exclude *
  OUTPUT_VARIABLE commit RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$") # no repository, or no git
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "runs/environment.h"

namespace posenc::runs {

// In one piece in the program's file, where a test replaces it.
extern char build_commit_text[];
char build_commit_text[] = "@commit@";

std::string build_commit() { return build_commit_text; }

}  // namespace posenc::runs
]] @ONLY)
