// The command line: `ullage serve | generate | inspect`. The only place where concrete parts are wired together.
#pragma once

namespace ullage::cli {

// Exit codes: 0 done, 1 the command failed (one "error: ..." line on stderr), 2 the command line was wrong,
// 130 interrupted.
int run(int argc, char** argv);

}  // namespace ullage::cli
