#include "support/paths.h"

namespace posenc::testing {

const char* const kTestData = POSENC_TEST_DATA_DIR;
const char* const kCliPath = POSENC_CLI_PATH;
const char* const kLabPath = POSENC_LAB_PATH;

}  // namespace posenc::testing
